//! Commands on the history of files and vaults.

mod changes;
mod checkout;
mod diff;
mod endpoint;
mod lines;
mod log;
mod merge;
mod undo;

pub use changes::{ChangeList, show_changes};
pub use checkout::{CheckedOutFile, Checkout, Revert, Reverted, checkout, revert};
pub use diff::{Diff, diff};
pub use lines::FileDifference;
pub use log::{History, Log, log};
pub use merge::{Merge, Merged, merge};
pub use undo::{Redo, Undo, UndoneChange, redo, undo};
