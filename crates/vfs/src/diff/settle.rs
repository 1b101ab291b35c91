//! Decides the conflicts of a merge for one side.

use std::collections::BTreeMap;

use agentiso_store::{
    Conflict, ConflictKind, Edit, File, Meta, Node, Session, TreeId, TreePath, directory_meta, edit,
};

use crate::VfsError;
use crate::checkpoint::find;

/// The side that conflicts are decided for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Prefer {
    Ours,
    Theirs,
}

/// A merged tree in which these conflicts are decided.
pub(crate) fn settle<'c>(
    session: &Session,
    merged: TreeId,
    conflicts: impl IntoIterator<Item = &'c Conflict>,
    prefer: Prefer,
) -> Result<TreeId, VfsError> {
    let mut edits = BTreeMap::new();
    for conflict in conflicts {
        let wanted = match prefer {
            Prefer::Ours => &conflict.ours,
            Prefer::Theirs => &conflict.theirs,
        };
        if let Some(change) = decide(session, merged, conflict, wanted.as_ref())? {
            edits.insert(conflict.path.clone(), change);
        }
    }
    Ok(edit(session, merged, edits)?)
}

fn decide(
    session: &Session,
    merged: TreeId,
    conflict: &Conflict,
    wanted: Option<&Node>,
) -> Result<Option<Edit>, VfsError> {
    let path: &TreePath = &conflict.path;
    let Some(wanted) = wanted else { return Ok(Some(Edit::Remove)) };
    if conflict.kind != ConflictKind::Metadata {
        return Ok(Some(Edit::Put(with_merged_meta(wanted, conflict))));
    }
    // Contents were merged; only mode, owner and attributes are to be decided.
    Ok(match (find(session, merged, path)?, wanted) {
        (Some(Node::Directory(_)), Node::Directory(tree)) => {
            Some(Edit::SetMeta(directory_meta(session, *tree)?))
        }
        (Some(Node::File(file)), Node::File(wanted)) => {
            Some(Edit::Put(Node::File(File { meta: wanted.meta, ..file })))
        }
        (Some(Node::Symlink { target, .. }), Node::Symlink { meta, .. }) => {
            Some(Edit::Put(Node::Symlink { meta: *meta, target }))
        }
        (Some(Node::Fifo { .. }), Node::Fifo { meta }) => Some(Edit::Put(Node::Fifo { meta: *meta })),
        _ => None,
    })
}

/// The wanted file, with a mode and an owner that only the other side changed.
fn with_merged_meta(wanted: &Node, conflict: &Conflict) -> Node {
    let metas = (&conflict.base, &conflict.ours, &conflict.theirs);
    let (Node::File(file), (Some(Node::File(base)), Some(Node::File(ours)), Some(Node::File(theirs)))) =
        (wanted, metas)
    else {
        return wanted.clone();
    };
    let other = if ours.meta == file.meta { theirs.meta } else { ours.meta };
    let mut meta: Meta = file.meta;
    if meta.mode == base.meta.mode {
        meta.mode = other.mode;
    }
    if (meta.uid, meta.gid) == (base.meta.uid, base.meta.gid) {
        (meta.uid, meta.gid) = (other.uid, other.gid);
    }
    Node::File(File { meta, ..*file })
}
