//! Garbage collection, checks and statistics.

mod fsck;
mod gc;
mod maintain;
mod stats;

pub use fsck::{FsckRequest, LostRow, VaultFsck};
pub use gc::{GcDone, GcRequest};
pub use maintain::{Compacted, MaintainRequest, Maintained};
pub use stats::VaultStats;
