//! Comparison of two trees. Directories and pages with equal identities are not read, so the cost is that of what differs.

mod apply;
mod changes;
mod compare;
mod renames;

pub use apply::{apply, invert};
pub use changes::{Aspect, Change, ChangeKind, ChangeOptions, Changes, Info, changes};
pub use compare::{Delta, compare};
