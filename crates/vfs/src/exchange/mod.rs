//! Trees from and to the host: directories, files, tar archives and git repositories.

mod graft;
mod import;
mod out;
mod overwrite;

pub use import::{ImportDone, ImportMode, ImportRequest};
pub use out::{ExportDone, ExportRequest};
