//! Finds damage, names the files that it affects, and repairs what can be repaired.

mod affected;
mod check;
mod repair;

pub use affected::Affected;
pub use check::{Damage, FsckReport, check};
pub use repair::{Repaired, repair};
