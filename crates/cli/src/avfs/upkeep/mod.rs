//! Upkeep of the installation's vaults.

mod audit;
mod compact;
mod fsck;
mod gc;
mod maintain;
mod prune;
mod stats;

pub use audit::{Audit, AuditCleared, AuditLog, audit};
pub use compact::{Compact, CompactDone, compact};
pub use fsck::{Fsck, FsckDone, fsck};
pub use gc::{Collected, Gc, gc};
pub use maintain::{Maintain, MaintainDone, maintain};
pub use prune::{Prune, PruneDone, prune};
pub use stats::{Stats, StatsShown, stats};
