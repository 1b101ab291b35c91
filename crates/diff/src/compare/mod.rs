//! Compares two trees by walking them in parallel.

mod clean;
mod content;
mod forest;
mod pair;
mod renames;
mod report;
mod run;
mod walk;

pub use run::{Options, compare, visit};
