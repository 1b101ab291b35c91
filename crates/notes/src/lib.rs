//! A directory of markdown notes, as Obsidian has them, for people and agents at once.
//!
//! ```text
//!  View (scope, author) ──► lock ──► read, compare with if_match ──► store ──► file ──► history ──► index
//!                                            │                                          ▲
//!                                            └─ conflict: both versions and a merge     └── watcher, scan: other programs
//! ```
//!
//! The files are the truth. Every read returns an [`Etag`], every change can require one. Changes are atomic and keep all
//! bytes that they do not mean; old versions are kept in a store. The index can be rebuilt from the files at any time.
//!
//! **Many processes** can use the same directory without a daemon: writers take turns by a lock, readers need none. Other
//! programs, which know no lock, may edit files at any time: a change that would overwrite what they just saved is refused
//! or tried again.
//!
//! **A process may be killed at any instant.** What was answered is kept; a change of several files is completed by the
//! next writer.
//!
//! **Notes are hostile.** Sizes, nesting and numbers are bounded ([`limits`]), symbolic links are never followed, and no
//! name leads out of the directory.

mod actions;
mod analysis;
mod change;
mod config;
mod conflict;
mod database;
mod disk;
mod error;
mod etag;
pub mod front_matter;
mod history;
mod index;
pub mod limits;
pub mod markdown;
mod notes;
mod path;
mod scope;
mod steps;
mod view;
mod watch;

pub use actions::*;
pub use config::NotesConfig;
pub use conflict::{Conflict, Merge};
pub use error::NotesError;
pub use etag::{Etag, IfMatch};
pub use history::{Kept, Retention, Version, VersionAction};
pub use index::ScanReport;
pub use notes::Notes;
pub use path::{FolderPath, NotePath};
pub use scope::Scope;
pub use steps::{Step, Steps};
pub use view::View;
pub use watch::Watcher;
