//! Working directories: a tree with a writable layer above it.
//!
//! ```text
//!            ┌────────────────────────── reset ◄─────────────────────────┐
//!            ▼                                                           │
//! create ──► held ──► mounted, written to ──► ingested, any number of times ──► removed
//!              │ dropped or killed                          │
//!              └──► abandoned, with its changes ──► claimed ┘
//! ```
//!
//! `DIR/NAME/` has `hold` (locked by the process that owns it), `ingest` (locked while its changes are read),
//! `state.json`, `cache` (what the last ingest remembered), and `upper-N`, `work-N` or, without overlayfs, `tree-N`. A reset
//! makes generation N+1 and then changes the state in one step. `DIR/.new-NAME` and `DIR/.old-NAME` are being made or
//! removed; those of killed processes are removed by the next `open`.

mod dirs;
mod held;
mod stamp;
mod state;

pub use dirs::WorkDirs;
pub use held::{Access, WorkDir};
pub use state::{Kind, WorkDirInfo, WorkDirOptions};

pub(crate) use state::State;
