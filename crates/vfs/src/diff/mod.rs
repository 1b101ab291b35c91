//! Compares states with each other and with directories of the host, and merges vaults.

mod ancestry;
mod compare;
mod lines;
mod merge;
mod settle;

pub use compare::Endpoint;
pub use lines::{FileDiff, Hunk, Line, LineKind, diff_lines};
pub use merge::{MergeReport, MergeVaults, OnConflict};

pub(crate) use settle::{Prefer, settle};
