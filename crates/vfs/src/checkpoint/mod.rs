//! Checkpoints: named states of a vault. One is a row, whatever the size of the tree.

mod kind;
mod list;
mod restore;
mod save;

pub use kind::{Checkpoint, CheckpointKind, SaveCheckpoint};
pub use restore::{Restore, Restored};

pub(crate) use restore::{find, take_path};
pub(crate) use save::{NewCheckpoint, check};
