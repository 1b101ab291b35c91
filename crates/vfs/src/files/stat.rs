//! What is known about a file.

use agentiso_store::{Content, Meta, Node, NodeKind, ObjectId, Objects, Time, TreePath, directory};

use super::resolve::{entries, resolve};
use super::view::View;
use crate::VfsError;

/// A file, directory, link or pipe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Stat {
    /// Where it is.
    pub path: TreePath,
    /// What it is.
    pub kind: NodeKind,
    /// Permission bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last modification.
    pub mtime: Time,
    /// Size of a file, or length of a link's target.
    pub size: u64,
    /// Target of a symbolic link.
    pub target: Option<Vec<u8>>,
    /// Where the bytes of a file are. Equal bytes have equal contents.
    pub content: Option<Content>,
    /// Identity of a file's content or of a directory's tree, in hexadecimal digits.
    pub hash: Option<String>,
    /// Whether it has extended attributes.
    pub has_attributes: bool,
    /// Whether the file has several names.
    pub is_linked: bool,
    /// Number of entries of a directory, if it was read.
    pub entries: Option<u64>,
}

impl Stat {
    /// The name in its directory; empty for the root.
    pub fn name(&self) -> Vec<u8> {
        self.path.split().map(|(_, name)| name.to_vec()).unwrap_or_default()
    }
}

/// A directory with what is in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TreeNode {
    /// The file or directory.
    pub stat: Stat,
    /// The entries of a directory; nothing if it is something else, or below the depth.
    pub children: Option<Vec<TreeNode>>,
}

impl View {
    /// What a path names. `follow` decides whether a symbolic link is followed.
    pub fn stat(&self, path: &TreePath, follow: bool) -> Result<Stat, VfsError> {
        let (found, node) = self.node(path, follow)?;
        let mut stat = stat_node(&self.store, found, &node)?;
        if let Node::Directory(tree) = node {
            stat.entries = Some(directory(&self.store, tree)?.entries.len() as u64);
        }
        Ok(stat)
    }

    /// The entries of a directory, by name; of anything else, itself.
    pub fn list(&self, path: &TreePath) -> Result<Vec<Stat>, VfsError> {
        let (found, node) = self.node(path, true)?;
        let Node::Directory(tree) = node else { return Ok(vec![stat_node(&self.store, found, &node)?]) };
        let entries = entries(&self.store, tree)?;
        entries.iter().map(|entry| stat_node(&self.store, found.join(&entry.name), &entry.node)).collect()
    }

    /// A path with everything in it, to a depth.
    pub fn tree_of(&self, path: &TreePath, depth: Option<usize>) -> Result<TreeNode, VfsError> {
        let (found, node) = self.node(path, true)?;
        self.branch(found, &node, depth)
    }

    fn branch(&self, path: TreePath, node: &Node, depth: Option<usize>) -> Result<TreeNode, VfsError> {
        let stat = stat_node(&self.store, path.clone(), node)?;
        let Node::Directory(tree) = node else { return Ok(TreeNode { stat, children: None }) };
        if depth == Some(0) {
            return Ok(TreeNode { stat, children: None });
        }
        // Paths have at most 4095 bytes, so this ends; a crafted tree that is deeper is refused.
        TreePath::parse(path.as_bytes())?;
        let below = depth.map(|depth| depth - 1);
        let entries = entries(&self.store, *tree)?;
        let children = entries.iter().map(|entry| self.branch(path.join(&entry.name), &entry.node, below));
        Ok(TreeNode { stat, children: Some(children.collect::<Result<_, _>>()?) })
    }

    /// The tree of a directory.
    pub(crate) fn directory(&self, path: &TreePath) -> Result<agentiso_store::TreeId, VfsError> {
        match self.node(path, true)? {
            (_, Node::Directory(tree)) => Ok(tree),
            (path, _) => Err(VfsError::NotADirectory { path }),
        }
    }

    /// Finds what must exist.
    pub(super) fn node(&self, path: &TreePath, follow: bool) -> Result<(TreePath, Node), VfsError> {
        let place: (&dyn Objects, _) = (&self.store, self.tree());
        let (found, node) = resolve(&place, path, follow)?;
        let node = node.ok_or_else(|| VfsError::NotFound { path: found.clone() })?;
        Ok((found, node))
    }
}

/// Describes a node.
pub(crate) fn stat_node(objects: &dyn Objects, path: TreePath, node: &Node) -> Result<Stat, VfsError> {
    let meta = match node {
        Node::Directory(tree) => agentiso_store::directory_meta(objects, *tree)?,
        other => other.meta().copied().unwrap_or_default(),
    };
    let Meta { mode, uid, gid, mtime, attributes } = meta;
    let mut stat = Stat {
        path,
        kind: node.kind(),
        mode,
        uid,
        gid,
        mtime,
        size: 0,
        target: None,
        content: None,
        hash: None,
        has_attributes: attributes.is_some(),
        is_linked: false,
        entries: None,
    };
    match node {
        Node::Directory(tree) => stat.hash = Some(tree.to_string()),
        Node::File(file) => {
            stat.size = file.size;
            stat.content = Some(file.content);
            stat.hash = Some(content_name(file.content).to_string());
            stat.is_linked = file.link.is_some();
        }
        Node::Symlink { target, .. } => {
            stat.size = target.len() as u64;
            stat.target = Some(target.to_vec());
        }
        Node::Fifo { .. } => {}
    }
    Ok(stat)
}

/// The identity of a content. That of a small file is the BLAKE3 hash of its bytes.
fn content_name(content: Content) -> ObjectId {
    match content {
        Content::Empty => ObjectId::of(agentiso_store::ObjectKind::Blob, b""),
        Content::Blob(id) | Content::Chunked(id) => id,
    }
}
