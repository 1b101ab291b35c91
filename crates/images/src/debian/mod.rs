//! Images built from Debian packages.

mod build;
mod error;
mod mode;
mod recipe;
mod sources;

pub use build::build;
pub use error::DebianError;
pub use mode::mode;
pub use recipe::Recipe;
pub use sources::{Sources, one_suite_of};
