//! History: of one file, and of the whole vault.
//!
//! The journal records where each change took place, as the smallest list of paths. The versions of a file are the changes
//! at its path, and those at a directory above it before and after which it is not the same.

mod checkout;
mod log;
mod prune;
mod undo;
mod versions;

pub use checkout::CheckedOut;
pub use log::{Revision, Version, VersionRef};
pub use prune::{PruneKeep, PruneRequest, Pruned};
pub use undo::Undone;
