//! What changed between two ext4 disks, and what is on one, file by file, read on the host without mounting them.
//!
//! [`compare`] walks both trees in step and never believes a time stamp: two files are the same when their
//! metadata is and their bytes are, and bytes are only left unread where both disks keep them at the very same
//! place. Times alone, and the size of a directory, are no change; neither are inode flags (`chattr`).
//!
//! Guests write these file systems, so nothing in them is believed: every number is checked before it is used,
//! and work and memory are bounded by the limits in [`Options`] and by the size of the disks.

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
