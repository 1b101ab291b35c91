//! Two trees in step.

mod clean;
mod content;
mod forest;
mod pair;
mod renames;
mod report;
mod run;
mod walk;

pub use run::{Options, compare, visit};
