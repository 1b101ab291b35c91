//! What runs in the helper process and in the init of a sandbox: this program again, with one thread.
//!
//! ```text
//!  helper: receive Start ─► join cgroups ─► clone ─► write maps ─► report Cloned ─► exit
//!                                            │
//!  init:    wait for the maps ─► files ─► limits ─► drop, restrict ─► report Ready ─┬─► supervise one command ─► exit
//!                                                                                  └─► serve a session ─► exit
//! ```
//!
//! Sad paths: whatever fails before `Ready` is reported as `Failed` and the process exits; the kernel then removes what was
//! mounted. When the caller disappears its end of the channel closes, and init exits, which ends every process in its pid
//! namespace.

mod entry;
mod execute;
mod files;
mod identity;
mod init;
mod limits;
mod plain;
mod restrict;
mod session;
mod step;
mod supervise;
mod tree;

pub(crate) use entry::HELPER_NAME;
pub use entry::run_helper_if_requested;
pub(crate) use limits::counts_processes;
