//! The daemon: the one process that works on an installation, and how others find it.
//!
//! ```text
//!            start                      SIGTERM, stop
//!  no daemon ───────► opening ─► serving ───────────► closing ─► no daemon
//!    ▲                   │ recovers what a killed        │ machines go on, unless they are to be stopped
//!    └───────────────────┘ one left behind               │
//! ```
//!
//! It has a lock in the data directory, which the kernel takes back when it dies, and a socket that only its user can
//! open. A command that needs it starts it; it runs until it is stopped.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod anteroom;
mod doors;
mod limited;
mod lock;
mod log;
mod reach;
mod run;
mod serve;
mod socket;
mod spawn;
mod stall;
mod token;

pub use self::lock::running_pid;
pub use self::log::{BoundedLog, log_file};
pub use self::reach::{client, client_if_running, client_with_metrics};
pub use self::run::run;
pub use self::socket::socket_file;
