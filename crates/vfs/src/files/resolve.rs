//! Finds what a path names, through symbolic links. Links are followed inside the tree only: its root is `/` for absolute
//! targets, and `..` does not lead above it.

use agentiso_store::{Node, Objects, TreeId, TreePath, directory, lookup};

use crate::VfsError;

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// Where nodes are looked up.
pub(crate) trait Resolver {
    /// What a path without links in it names.
    fn node(&self, path: &TreePath) -> Result<Option<Node>, VfsError>;
}

impl Resolver for (&dyn Objects, TreeId) {
    fn node(&self, path: &TreePath) -> Result<Option<Node>, VfsError> {
        Ok(lookup(self.0, self.1, path)?)
    }
}

/// Follows links in a path: those of its directories, and that of its last component if `follow` says so. Returns the path
/// without links, and what it names, if it exists; its directory exists.
pub(crate) fn resolve(
    tree: &dyn Resolver,
    path: &TreePath,
    follow: bool,
) -> Result<(TreePath, Option<Node>), VfsError> {
    let mut at = TreePath::root();
    // Components that are still to be visited, the next one last.
    let mut rest: Vec<Vec<u8>> = path.components().map(<[u8]>::to_vec).collect();
    rest.reverse();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                at = at.split().map_or_else(TreePath::root, |(parent, _)| parent);
                continue;
            }
            _ => {}
        }
        let next = TreePath::parse(at.join(&name).as_bytes())?;
        let node = tree.node(&next)?;
        let is_last = rest.iter().all(|part| part.is_empty() || part == b".");
        match node {
            Some(Node::Symlink { target, .. }) if follow || !is_last => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(VfsError::LinkLoop { path: path.clone() });
                }
                if target.first() == Some(&b'/') {
                    at = TreePath::root();
                }
                rest.extend(target.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
            }
            Some(Node::Directory(_)) => at = next,
            node if is_last => return Ok((next, node)),
            Some(_) => return Err(VfsError::NotADirectory { path: next }),
            None => return Err(VfsError::NotFound { path: next }),
        }
    }
    let node = tree.node(&at)?;
    Ok((at, node))
}

/// The entries of a directory.
pub(crate) fn entries(objects: &dyn Objects, tree: TreeId) -> Result<Vec<agentiso_store::Entry>, VfsError> {
    Ok(directory(objects, tree)?.entries)
}
