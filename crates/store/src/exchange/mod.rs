//! Trees from and to archives and git repositories.

mod git;
mod git_in;
mod git_out;
mod tar_ahead;
mod tar_in;
mod tar_out;

pub use git_in::{GitImported, import_git, import_git_line};
pub use git_out::{Commit, GitExported, export_git};
pub use tar_in::{TarLimits, TarRead, read_tar};
pub use tar_out::write_tar;
