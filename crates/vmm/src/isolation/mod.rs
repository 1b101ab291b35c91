//! What a QEMU sees of its host: a root of its own with the files it needs, and nothing else.
//!
//! ```text
//!   fork ─► group ─► unshare (mount, network, ipc; as an ordinary user also user) ─► small root ─► Landlock ─► user ─► exec
//! ```
//!
//! Between fork and exec the child makes an empty file system its root, and binds into it what QEMU needs, each file at
//! the path it has on the host: the program and its libraries and firmware, three devices, the base of its memory and
//! the layers of its disk for reading, and its own disk for writing. So a QEMU that a guest has taken over finds neither
//! the daemon's socket nor another machine's files, no network interface, and no process it could trace.
//!
//! Landlock is a second layer with the same list, where the kernel has it. On Linux 6.12 and later it also keeps QEMU
//! from sending signals to other processes of its user.
//!
//! What the child does is planned before the fork, because it may neither allocate nor take a lock.
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
