//! Comparisons of real file systems, made with e2fsprogs and never mounted.

#![expect(clippy::unwrap_used, reason = "what the tests need and cannot have fails them")]

mod aspects;
mod files;
mod hostile;
mod image;
mod journal;
mod renames;
mod scale;
mod trees;
mod walk;
