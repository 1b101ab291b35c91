//! Lower layers: trees laid out as directories, once, and shared.
//!
//! ```text
//! DIR/TREE/            tree/  the directory;  info.json;  lease  (locked by those who use it, touched when used)
//! DIR/TREE-BASE/       tree/  only what differs from the layout of BASE, as a layer of an overlay above it
//! DIR/.new-RANDOM/     is being made; its lease is locked. Killed: the next `open` removes it
//! DIR/.old-RANDOM/     is being removed
//! DIR/locks/NN         one maker per tree at a time
//! ```
//!
//! A tree that has no layout gets a layer over the nearest one if they differ little, so forks and checkpoints of a large
//! tree need no layout of their own. Otherwise it is laid out; what did not change since another layout is a reflink or,
//! where the file system has none, a hard link of that layout's file.
//!
//! Layouts are private to their owner, and nothing writes to them after the rename that publishes them.

mod base;
mod build;
mod cache;
mod difference;
mod evict;
mod info;
mod verify;

pub use base::Base;
pub use cache::{LayoutOptions, Layouts};
pub(crate) use difference::{Item, Layer};
pub use evict::Evicted;
pub(crate) use evict::{mark, unmark};
pub use info::LayoutInfo;
