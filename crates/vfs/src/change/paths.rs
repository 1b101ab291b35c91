//! Checks of paths before something is put there.

use agentiso_store::{Node, TreePath};

use super::working::Working;
use crate::VfsError;
use crate::files::{Resolver, resolve};

/// The directory of a path must exist.
pub(super) fn parent_exists(working: &Working<'_>, path: &TreePath) -> Result<(), VfsError> {
    let Some((parent, _)) = path.split() else {
        return Err(VfsError::IsADirectory { path: path.clone() });
    };
    match working.node(&parent)? {
        Some(Node::Directory(_)) => Ok(()),
        Some(_) => Err(VfsError::NotADirectory { path: parent }),
        None => Err(VfsError::NotFound { path: parent }),
    }
}

/// A path that exists, without links in its directories.
pub(super) fn existing(working: &Working<'_>, path: &TreePath) -> Result<TreePath, VfsError> {
    match resolve(working, path, false)? {
        (path, Some(_)) => Ok(path),
        (path, None) => Err(VfsError::NotFound { path }),
    }
}

/// Where something that is copied or moved goes.
pub(super) fn destination(
    working: &Working<'_>,
    from: &TreePath,
    node: &Node,
    to: &TreePath,
    replace: bool,
) -> Result<TreePath, VfsError> {
    let Some((_, name)) = from.split() else {
        return Err(VfsError::invalid("the root of a vault", "it cannot be copied or moved"));
    };
    let (mut path, mut found) = resolve(working, to, true)?;
    if matches!(found, Some(Node::Directory(_))) {
        path = path.join(name);
        found = working.node(&path)?;
    } else {
        // A link at the destination is replaced, not followed.
        (path, found) = resolve(working, to, false)?;
    }
    let to = path;
    if matches!(node, Node::Directory(_)) && to.is_within(from) && to != *from {
        let reason = format!("it is inside {from}, which would be put into itself");
        return Err(VfsError::invalid(&to, reason));
    }
    match (&found, node) {
        _ if to == *from => Ok(to),
        (None, _) => parent_exists(working, &to).map(|()| to),
        (Some(_), _) if !replace => Err(VfsError::Exists { path: to }),
        (Some(Node::Directory(tree)), Node::Directory(_)) => {
            let is_empty = agentiso_store::directory(working.session, *tree)?.entries.is_empty();
            if is_empty { Ok(to) } else { Err(VfsError::NotEmpty { path: to }) }
        }
        (Some(Node::Directory(_)), _) => Err(VfsError::IsADirectory { path: to }),
        (Some(_), Node::Directory(_)) => Err(VfsError::NotADirectory { path: to }),
        (Some(_), _) => Ok(to),
    }
}
