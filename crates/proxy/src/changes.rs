//! Changes of trees as the envelope shows them.

use agentiso_store::{
    Change, ChangeKind as StoreKind, Changes, ConflictKind, Content, Info, NodeKind, Notice, Reason, TreePath,
};

use crate::envelope::{ChangeKind, ChangeReport, ResultReport};

/// The most changes in an envelope.
const MOST: usize = 1000;

/// Puts changes into the envelope.
pub fn report(changes: &Changes, result: &mut ResultReport) {
    result.changes_total = changes.total;
    result.changes = first(changes);
    result.changes_truncated = result.changes.len() as u64 != changes.total;
    result.changed_files = result.changes.iter().map(|one| one.path.clone()).collect();
    result.changed_files.sort();
    result.changed_files.dedup();
}

/// The first changes.
pub fn first(changes: &Changes) -> Vec<ChangeReport> {
    changes.list.iter().take(MOST).map(change).collect()
}

/// One change.
pub fn change(change: &Change) -> ChangeReport {
    let info = change.after.as_ref().or(change.before.as_ref());
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let is_file = |info: &&Info| info.kind == NodeKind::File;
    let mode = |info: &Info| format!("{:04o}", info.meta.mode);
    ChangeReport {
        path: shown(&change.path),
        path_bytes: exact(&change.path),
        kind: match change.kind {
            StoreKind::Created => ChangeKind::Created,
            StoreKind::Modified => ChangeKind::Modified,
            StoreKind::Deleted => ChangeKind::Deleted,
            StoreKind::Renamed => ChangeKind::Renamed,
        },
        entry: info.map_or("file", |info| entry(info.kind)).to_owned(),
        old_path: change.old_path.as_ref().map(shown),
        size_before: before.filter(is_file).map(|info| info.size),
        size_after: after.filter(is_file).map(|info| info.size),
        hash_before: before.and_then(hash),
        hash_after: after.and_then(hash),
        mode_before: before.map(mode),
        mode_after: after.map(mode),
    }
}

/// What something is, in one word.
pub fn entry(kind: NodeKind) -> &'static str {
    match kind {
        NodeKind::Directory => "directory",
        NodeKind::File => "file",
        NodeKind::Symlink => "symlink",
        NodeKind::Fifo => "fifo",
    }
}

/// A path of a vault, with a slash before it.
pub fn shown(path: &TreePath) -> String {
    format!("/{}", String::from_utf8_lossy(path.as_bytes()))
}

/// The bytes of a path that is not UTF-8, in hexadecimal digits.
pub fn exact(path: &TreePath) -> Option<String> {
    let bytes = path.as_bytes();
    std::str::from_utf8(bytes).is_err().then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Why a path is in conflict.
pub fn reason(kind: ConflictKind) -> String {
    let reason = match kind {
        ConflictKind::BothModified => "both sides changed the content",
        ConflictKind::BothAdded => "both sides added it",
        ConflictKind::DeleteModify => "one side deleted it, and the other changed it",
        ConflictKind::TypeChange => "the sides made different kinds of entries of it",
        ConflictKind::DirectoryFile => "one side has a directory, and the other something else",
        ConflictKind::Metadata => "both sides changed its permissions, owner or attributes",
    };
    reason.to_owned()
}

/// Something that could not be kept.
pub fn notice(notice: &Notice) -> String {
    let reason = match &notice.reason {
        Reason::Socket => "a socket is not kept",
        Reason::Device => "a device is not kept",
        Reason::Whiteout => "the mark of a removed file is not kept",
        Reason::Vanished => "it was removed while it was read",
        Reason::Unstable => "it changed each time it was read",
        Reason::DirectoryChanged => "entries were added or removed while it was read",
        Reason::Unreadable => "it cannot be read",
        Reason::OtherFileSystem => "it is on another file system",
        Reason::Store => "it is the store itself",
    };
    format!("{}: {reason}", notice.path)
}

fn hash(info: &Info) -> Option<String> {
    match info.content? {
        Content::Empty => Some(blake3::hash(&[]).to_hex().to_string()),
        Content::Blob(id) | Content::Chunked(id) => Some(id.to_string()),
    }
}
