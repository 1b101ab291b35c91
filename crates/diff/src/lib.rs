//! Compares two ext4 disks, or lists the files of one, on the host and without mounting them.
//!
//! [`compare`] walks both trees in parallel and does not rely on timestamps: two files are the same if their metadata
//! and their bytes are the same. Bytes are skipped only where both disks store them in the same place. Differences in
//! times, the size of a directory, and inode flags (`chattr`) do not count as changes.
//!
//! Guests write these file systems, so nothing in them is trusted: every number is checked before use, and work and
//! memory are bounded by the limits in [`Options`] and by the size of the disks.

mod change;
mod compare;
mod error;
mod ext4;
mod file;
mod text;
mod walk;

pub use change::{Aspect, Change, ChangeKind, Changes, EntryInfo, EntryKind, Time, Totals};
pub use compare::{Options, compare, visit};
pub use error::{DiffError, Ext4Error};
pub use file::{FileContent, read_file};
pub use text::{TextDiff, text_diff};
pub use walk::{Found, Visitor, WalkError, walk};
