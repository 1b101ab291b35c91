//! Old versions of notes: their contents are in a store, and what they are is in one SQLite file.
//!
//! ```text
//! one file:       contents stored ─► [version before recorded] ─► file published ─► version recorded
//! several files:  contents stored ─► plan recorded ─► files published ─► versions recorded, plan removed
//! ```
//!
//! A process that is killed before the file is published has changed nothing. Killed later, the file is new and its
//! version is missing; the next scan notices the file and records it. A plan that is left is completed by the next holder
//! of the write lock, except for files that were changed by hand meanwhile: those are left as they are.

mod keep;
mod plan;
mod records;
mod schema;

pub use keep::{Kept, Retention};
pub(crate) use plan::{Plan, PlanStep};
pub(crate) use records::{NewVersion, Stored};
pub use records::{Version, VersionAction};
pub(crate) use schema::History;
