//! Renames of directories that an overlay refuses.
//!
//! Overlayfs without root cannot rename a directory that has a lower layer; it answers `EXDEV`. `mv` copies then, but npm,
//! `os.rename`, editors and many others give up. So every command that runs on an overlay gets a seccomp filter that
//! reports the three rename system calls to a supervisor outside:
//!
//! ```text
//! rename(2) ──► filter ──► supervisor: is it a directory of our overlay?
//!                             │ no: the kernel continues the call as if nothing had happened
//!                             └ yes: renames it, or moves it by links (see `directory`) ──► result to the caller
//! ```
//!
//! The supervisor has no rights beyond those of the user who started the command, and acts only if both paths are on the
//! one mount it was made for. Nothing else could be done with another process's paths safely: they may change between
//! the look and the call.

mod caller;
mod directory;
mod filter;
mod supervisor;

pub(crate) use directory::is_staging;
pub use directory::move_directory;
pub use filter::{install_rename_filter, rename_filter};
pub use supervisor::{RenameStats, RenameSupervisor};
