//! Notes as their callers see them: files, index and history together.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod conflicts;
mod hostile;
mod kills;
mod laws;
mod links;
mod searching;
mod support;
mod versions;
mod watching;
mod writing;
