//! Tests of the store on real directories.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod archives;
mod collection;
mod concurrency;
mod damage;
mod directories;
mod formats;
mod git;
mod hostile;
mod kills;
mod laws;
mod layers;
mod merging;
mod races;
mod space;
mod support;
