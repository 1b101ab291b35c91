//! A sandbox for one command, or for many commands in turn.
//!
//! [`Spec`] says what the sandbox contains: files, network, user and limits. [`Command`] says what runs in it.
//! [`Launcher::run`] starts one command in a sandbox of its own; [`Launcher::open`] starts a sandbox that stays, in which
//! [`Session::exec`] starts commands. Both report in an [`Enforcement`] what the kernel enforces and what it could not.
//!
//! ```text
//!  caller ──spawn──► helper: its own program again, single-threaded
//!    │                 │ clone3 (user, mount, pid, net, ipc, uts, cgroup), writes the maps of users, exits
//!    │                 ▼
//!    └──channel────► init: pid 1. mounts, pivot_root, drops capabilities, Landlock, seccomp
//!                      │ fork
//!                      ▼
//!                    command and its descendants
//! ```
//!
//! Invariants:
//! - A command starts only after every measure is in force or reported; a measure in [`Spec::require`] that cannot be
//!   enforced is an error, and nothing has run.
//! - When the command ends, is killed or times out, and when the caller ends for whatever reason, all processes of the
//!   sandbox end and its mounts disappear.
//! - Descriptors other than 0, 1 and 2 never reach a command.
//!
//! The program that calls [`Launcher`] must call [`run_helper_if_requested`] first in `main`.

mod cgroup;
mod command;
mod enforcement;
mod env;
mod error;
mod helper;
mod kernel;
mod launcher;
mod running;
mod session;
mod spec;
mod stdio;
mod wire;

pub use command::{Command, Leftovers};
pub use enforcement::{Enforced, Enforcement, Measure, State};
pub use env::Environment;
pub use error::JailError;
pub use helper::run_helper_if_requested;
pub use launcher::{Launcher, NetworkNamespace};
pub use running::{End, Exit, RenameNotifier, Running, Usage};
pub use session::Session;
pub use spec::{
    Bind, FileCapabilities, Limits, Mount, Network, Overlay, Root, SPEC_VERSION, ShownUser, Spec, Tmpfs,
};
pub use stdio::Stdio;
