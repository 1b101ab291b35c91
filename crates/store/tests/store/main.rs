//! Tests of the store on real directories.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod directories;
mod support;
