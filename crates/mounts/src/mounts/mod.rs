//! Mounts that other programs see, and that outlive the command that made them.
//!
//! ```text
//! mount ──► record ──► root: the kernel's overlay ──────────────────────────────┐
//!              │  └──► others: a detached FUSE server, which holds the workdir ──┼──► live ──► unmount ──► workdir ──► ingest
//!              │  └──► neither possible: a plain directory, reached by a link ───┘      │
//!              └ killed here, or the server killed later: the next `list`, `mount` or `unmount` detaches what is left and
//!                removes the record; the working directory is then an abandoned one, with its changes
//! ```

mod launch;
mod record;
mod registry;
mod table;

pub use launch::{Launcher, serve_mount};
pub use record::{By, MountInfo, MountState};
pub use registry::{MountRequest, Mounts};
