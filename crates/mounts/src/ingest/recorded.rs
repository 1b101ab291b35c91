//! Owners and modes that an ordinary user cannot give to files.

use std::collections::BTreeMap;

use agentiso_store::{Delta, Edit, File, Meta, Node, Session, StoreError, TreeId, compare, edit};

/// The bits that are left out when a file does not belong to its recorded owner.
const SET_ID: u16 = 0o6000;

/// The tree with the owners that `base` records, for what existed in it.
///
/// Without root, everything in a working directory belongs to the caller and has no setuid and setgid bits. What was copied
/// up only because something near it changed must not appear as changed itself.
pub(super) fn as_recorded(session: &Session, base: TreeId, tree: TreeId) -> Result<TreeId, StoreError> {
    if rustix::process::geteuid().is_root() || base == tree {
        return Ok(tree);
    }
    let caller = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut edits = BTreeMap::new();
    for delta in compare(session, base, tree)? {
        match delta {
            Delta::Changed { path, before, after } => {
                if let Some(meta) = restored(before.meta(), after.meta(), caller, is_same(&before, &after)) {
                    edits.insert(path, Edit::Put(with_meta(after, meta)));
                }
            }
            Delta::DirectoryMeta { path, before, after } => {
                if let Some(meta) = restored(Some(&before), Some(&after), caller, true) {
                    edits.insert(path, Edit::SetMeta(meta));
                }
            }
            Delta::Created { .. } | Delta::Removed { .. } => {}
        }
    }
    if edits.is_empty() {
        return Ok(tree);
    }
    edit(session, tree, edits)
}

/// The metadata to record instead of what was found; nothing if they are the same.
fn restored(before: Option<&Meta>, after: Option<&Meta>, caller: (u32, u32), is_same: bool) -> Option<Meta> {
    let (before, after) = (before?, after?);
    let mut meta = *after;
    if (after.uid, after.gid) == caller {
        (meta.uid, meta.gid) = (before.uid, before.gid);
    }
    if is_same && before.mode & SET_ID != 0 && after.mode == before.mode & !SET_ID {
        meta.mode = before.mode;
    }
    (meta != *after).then_some(meta)
}

fn is_same(before: &Node, after: &Node) -> bool {
    match (before, after) {
        (Node::File(before), Node::File(after)) => before.content == after.content,
        _ => before.kind() == after.kind(),
    }
}

fn with_meta(node: Node, meta: Meta) -> Node {
    match node {
        Node::File(file) => Node::File(File { meta, ..file }),
        Node::Symlink { target, .. } => Node::Symlink { meta, target },
        Node::Fifo { .. } => Node::Fifo { meta },
        directory @ Node::Directory(_) => directory,
    }
}
