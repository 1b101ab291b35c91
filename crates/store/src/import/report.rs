//! What an import says about itself.

use crate::path::TreePath;

/// Notices kept; more are only counted.
const MAX_NOTICES: usize = 10_000;

/// Why something is not in the tree, or may not be as it was.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Reason {
    /// A socket: a tree does not keep it.
    Socket,
    /// A device: a tree does not keep it.
    Device,
    /// The mark by which an overlay hides a file of a lower layer. [`crate::import_layer`] understands it.
    Whiteout,
    /// It existed when its directory was listed, and not any more when it was read.
    Vanished,
    /// It changed each time it was read. The tree has what was read last, or nothing if no attempt came to an end.
    Unstable,
    /// Entries of the directory were added or removed during the import.
    DirectoryChanged,
    /// No permission to read it.
    Unreadable,
    /// It is on another file system, and only one was to be imported.
    OtherFileSystem,
    /// It is the store itself.
    Store,
}

/// One thing that is reported.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    /// Where.
    pub path: TreePath,
    /// What.
    pub reason: Reason,
}

/// Counts and notices of an import.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImportReport {
    /// Regular files, counted by name.
    pub files: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Named pipes.
    pub fifos: u64,
    /// Size of all files.
    pub bytes: u64,
    /// Files that were not read because an earlier import knew them.
    pub reused: u64,
    /// What was left out or may be inconsistent; at most 10,000.
    pub notices: Vec<Notice>,
    /// Number of notices, with those that were not kept.
    pub notice_count: u64,
}

impl ImportReport {
    pub(super) fn note(&mut self, path: TreePath, reason: Reason) {
        self.notice_count += 1;
        if self.notices.len() < MAX_NOTICES {
            self.notices.push(Notice { path, reason });
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.files += other.files;
        self.directories += other.directories;
        self.symlinks += other.symlinks;
        self.fifos += other.fifos;
        self.bytes += other.bytes;
        self.reused += other.reused;
        self.notice_count += other.notice_count;
        let room = MAX_NOTICES - self.notices.len().min(MAX_NOTICES);
        self.notices.extend(other.notices.into_iter().take(room));
    }
}
