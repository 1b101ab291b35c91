//! Comparisons of real file systems, created with e2fsprogs and never mounted.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod aspects;
mod files;
mod hostile;
mod image;
mod journal;
mod renames;
mod scale;
mod trees;
mod walk;
