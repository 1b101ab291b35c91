//! Export of a tree to a directory of the host.

mod apply_meta;
mod file;
mod materialise;
mod partial;
mod plan;
mod reuse;

pub use materialise::{MaterialiseOptions, Materialised, materialise};
pub use partial::remove_abandoned;
pub use reuse::{Reuse, Sharing};
