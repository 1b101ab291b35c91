//! A root file system as a sequence of entries.

use std::io::{self, Read};

/// Seconds and nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// What an entry is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file of that many bytes.
    File {
        /// Its length in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, as stored. Never followed on the host.
        target: Vec<u8>,
    },
    /// Another name for an entry that came earlier.
    Hardlink {
        /// The earlier entry's path.
        target: Vec<u8>,
    },
    /// A character device.
    CharDevice {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Its major number.
        major: u32,
        /// Its minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// Removes the path and everything below it: a layer deletes files of an earlier layer.
    Removed,
    /// Removes everything below the path, but not the directory itself.
    Emptied,
}

/// One entry of a root file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RootfsEntry {
    /// Relative path without `.` or `..`; empty for the root itself.
    pub path: Vec<u8>,
    /// Its type.
    pub kind: EntryKind,
    /// Permission bits, including set-uid, set-gid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last modification.
    pub mtime: Timestamp,
    /// Extended attributes.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Receives a root file system entry by entry, parents and link targets first.
pub trait RootfsSink {
    /// Adds one entry; `content` yields exactly the file's bytes and is empty for everything else.
    fn entry(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> io::Result<()>;
}
