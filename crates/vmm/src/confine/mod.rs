//! Resource limits: a cgroup (v2) for each QEMU, with limits on memory, CPU time, tasks and disk traffic.
//!
//! ```text
//!   <mount>/agentiso.slice/agentiso-<home>.scope/<machine>           as root, by systemd or by ourselves
//!   <mount>/user.slice/.../user@N.service/agentiso.slice/...         as a user, by the user's systemd
//! ```
//!
//! One scope contains all machines of an installation and is delegated to us: systemd creates it around the first
//! process and removes it after the last. So machines are in no service's cgroup, and outlive the daemon and its unit.
//! A process is put into its cgroup between fork and exec, before it has allocated any memory.
#![expect(
    clippy::disallowed_methods,
    reason = "the spawn, the trial and the sweep run `in_place`; the rest reads and writes cgroup files, which are memory"
)]

mod confinement;
mod dbus;
mod error;
mod group;
mod hierarchy;
mod keeper;
mod limits;
mod manager;
mod trial;

pub use confinement::{Confinement, LimitSettings};
pub use error::ConfineError;
pub use group::Group;
pub use limits::{IoLimits, Limits};
pub use trial::Trial;
