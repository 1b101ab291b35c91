//! Three-way merge of trees.

mod conflict;
mod files;
mod meta;
mod text;
mod trees;

pub use conflict::{Conflict, ConflictKind};
pub use text::{TextMerge, merge_text};
pub use trees::{MergeOptions, Merged, Sides, TextStyle, merge};
