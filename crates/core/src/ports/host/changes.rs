//! The result of comparing two disks.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};

/// Everything that differs between two disks.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Changes {
    /// The changes, ordered by path, a directory before what is in it.
    pub entries: Vec<Change>,
    /// How many of each, and how much.
    pub totals: Totals,
}

/// How much differs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Totals {
    /// Paths that exist only on the second disk.
    pub added: u64,
    /// Paths that exist only on the first disk.
    pub removed: u64,
    /// Paths in both whose content or metadata differs.
    pub modified: u64,
    /// Paths that moved.
    pub renamed: u64,
    /// Paths that could not be read on one of the disks.
    pub unreadable: u64,
    /// Size of the added files, and how much others grew.
    pub bytes_added: u64,
    /// Size of the removed files, and how much others shrank.
    pub bytes_removed: u64,
}

/// One difference.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// Absolute path, the new one after a rename. Any bytes except NUL. Serialised as `path`, and as
    /// `path_bytes` in hexadecimal too if it is not UTF-8.
    pub path: Vec<u8>,
    /// What happened.
    pub kind: ChangeKind,
    /// The entry on the first disk.
    pub before: Option<EntryInfo>,
    /// The entry on the second disk.
    pub after: Option<EntryInfo>,
}

/// What happened to a path.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ChangeKind {
    /// It exists only on the second disk.
    Added,
    /// It exists only on the first disk.
    Removed,
    /// It is in both and differs.
    Modified {
        /// What differs.
        aspects: BTreeSet<Aspect>,
    },
    /// It is the same inode, gone from one path and new at another. What is in a renamed directory is listed
    /// only as far as it differs.
    Renamed {
        /// The old path.
        from: Vec<u8>,
        /// What else differs.
        aspects: BTreeSet<Aspect>,
    },
    /// The file system is damaged here, so this path was not compared, nor what may be below it.
    Unreadable {
        /// On which disk, and what is wrong.
        reason: String,
    },
}

/// What can differ.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// The bytes of a file.
    Content,
    /// Permissions.
    Mode,
    /// User or group.
    Owner,
    /// A file became a directory, or the like.
    Type,
    /// Extended attributes, with access control lists and capabilities among them.
    Xattr,
    /// Where a symbolic link leads.
    Target,
    /// The numbers of a device.
    Device,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct EntryInfo {
    /// Its type.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permissions, with set-user-ID and the like: the lowest twelve bits.
    pub mode: u16,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// When it was last written, as the guest says.
    pub mtime: Time,
    /// How many paths it has, as the guest says.
    pub nlink: u16,
}

/// Types of entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl EntryKind {
    /// The type with an article, for messages.
    pub fn with_article(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::CharacterDevice => "a character device",
            Self::BlockDevice => "a block device",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
        }
    }
}

/// The difference of two files, as far as it can be shown.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TextDiff {
    /// The files are equal.
    Same,
    /// In the unified format, with three lines of context and no file names.
    Text {
        /// Whole lines.
        unified: String,
        /// Whether lines were cut off at the end.
        truncated: bool,
    },
    /// At least one of the files is not text.
    Binary,
    /// The files are too large to compare line by line.
    TooLarge {
        /// The size limit in bytes.
        limit: u64,
    },
}

/// A time as the guest stored it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds beyond the whole second.
    pub nanoseconds: u32,
}

impl Totals {
    /// Adds a change.
    pub fn count(&mut self, change: &Change) {
        match change.kind {
            ChangeKind::Added => self.added += 1,
            ChangeKind::Removed => self.removed += 1,
            ChangeKind::Modified { .. } => self.modified += 1,
            ChangeKind::Renamed { .. } => self.renamed += 1,
            ChangeKind::Unreadable { .. } => self.unreadable += 1,
        }
        let before = file_size(change.before.as_ref());
        let after = file_size(change.after.as_ref());
        // Sparse files may claim any size: a sum of claims must not overflow.
        self.bytes_added = self.bytes_added.saturating_add(after.saturating_sub(before));
        self.bytes_removed = self.bytes_removed.saturating_add(before.saturating_sub(after));
    }
}

fn file_size(info: Option<&EntryInfo>) -> u64 {
    info.filter(|info| info.kind == EntryKind::File).map_or(0, |info| info.size)
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ChangeRecord::of(self).serialize(serializer)
    }
}

/// A change as it is written out: flat, and with paths that any reader of JSON can show.
#[derive(Serialize)]
struct ChangeRecord<'a> {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aspects: Option<&'a BTreeSet<Aspect>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a EntryInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a EntryInfo>,
}

impl<'a> ChangeRecord<'a> {
    fn of(change: &'a Change) -> Self {
        let (kind, from, aspects) = match &change.kind {
            ChangeKind::Added => ("added", None, None),
            ChangeKind::Removed => ("removed", None, None),
            ChangeKind::Modified { aspects } => ("modified", None, Some(aspects)),
            ChangeKind::Renamed { from, aspects } => ("renamed", Some(from), Some(aspects)),
            ChangeKind::Unreadable { .. } => ("unreadable", None, None),
        };
        let reason = match &change.kind {
            ChangeKind::Unreadable { reason } => Some(reason.as_str()),
            _ => None,
        };
        Self {
            path: String::from_utf8_lossy(&change.path).into_owned(),
            path_bytes: hex_unless_text(&change.path),
            kind,
            from: from.map(|from| String::from_utf8_lossy(from).into_owned()),
            from_bytes: from.and_then(|from| hex_unless_text(from)),
            aspects,
            reason,
            before: change.before.as_ref(),
            after: change.after.as_ref(),
        }
    }
}

fn hex_unless_text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> Option<EntryInfo> {
        let mtime = Time { seconds: 0, nanoseconds: 0 };
        Some(EntryInfo { kind: EntryKind::File, size, mode: 0o644, uid: 0, gid: 0, mtime, nlink: 1 })
    }

    #[test]
    fn a_path_that_is_not_text_is_written_out_without_loss() {
        let kind = ChangeKind::Renamed { from: b"/plain".to_vec(), aspects: BTreeSet::from([Aspect::Mode]) };
        let change = Change { path: b"/a\xff".to_vec(), kind, before: None, after: None };
        let json = serde_json::to_string(&change).unwrap();
        assert_eq!(
            json,
            "{\"path\":\"/a\u{fffd}\",\"path_bytes\":\"2f61ff\",\"kind\":\"renamed\",\"from\":\"/plain\",\
             \"aspects\":[\"mode\"]}"
        );
    }

    #[test]
    fn totals_count_growth_and_shrinkage_apart() {
        let mut totals = Totals::default();
        let modified = || ChangeKind::Modified { aspects: BTreeSet::from([Aspect::Content]) };
        for (kind, before, after) in [
            (ChangeKind::Added, None, file(10)),
            (ChangeKind::Removed, file(7), None),
            (modified(), file(5), file(8)),
            (modified(), file(8), file(6)),
        ] {
            totals.count(&Change { path: b"/f".to_vec(), kind, before, after });
        }
        let expected = Totals {
            added: 1,
            removed: 1,
            modified: 2,
            bytes_added: 13,
            bytes_removed: 9,
            ..Totals::default()
        };
        assert_eq!(totals, expected);
    }
}
