//! What a comparison of two points tells.

pub use agentiso_diff::{Aspect, Change, ChangeKind, Changes, EntryInfo, EntryKind, TextDiff, Totals};
