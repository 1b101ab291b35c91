//! Isolation of QEMU: a private root that contains only the files it needs.
//!
//! ```text
//!   fork ─► cgroup ─► unshare (mount, network, ipc; as an ordinary user also user) ─► small root ─► Landlock ─► user ─► exec
//! ```
//!
//! Between fork and exec the child makes an empty file system its root and bind-mounts what QEMU needs into it, each file
//! at its path on the host: the program with its libraries and firmware, three devices, its memory base and the backing
//! files of its disk (read-only), and its own disk (writable). So a QEMU that a guest has compromised has access neither
//! to the daemon's socket nor to other machines' files, network interfaces or processes.
//!
//! Landlock enforces the same list again, on kernels that support it. From Linux 6.12 it also keeps QEMU from sending
//! signals to other processes of its user.
//!
//! The child's steps are planned before the fork, because the child may neither allocate nor take a lock.
#![expect(clippy::disallowed_methods, reason = "`Isolation::find` and the spawn of a machine run `in_place`")]

mod enter;
mod host;
mod landlock;
mod plan;
mod program;
mod shown;

pub(crate) use enter::Stage;
pub use host::{Isolation, NotIsolated};
pub(crate) use plan::Entry;
pub(crate) use shown::Files;
pub use shown::{Access, Shown};
