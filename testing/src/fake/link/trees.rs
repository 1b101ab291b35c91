//! Directory trees in either direction.

use std::collections::VecDeque;
use std::sync::Arc;

use agentiso_core::ports::link::{
    GuestError, LinkError, TreeEntry, TreeItem, TreeKind, TreeOptions, TreeReader, TreeWriter, WriteOptions,
};
use async_trait::async_trait;

use crate::fake::machine::{Machine, locked};
use crate::fake::tree::{Content, Tree, invalid};

pub(super) struct Sending {
    left: VecDeque<TreeItem>,
}

impl Sending {
    pub fn new(tree: &Tree, path: &[u8]) -> Result<Self, GuestError> {
        let top = tree.resolve(path, true)?;
        tree.stat(&top, false)?;
        let mut left = VecDeque::new();
        for (at, node) in tree.under(&top) {
            let below = at[top.len()..].strip_prefix(b"/").unwrap_or(&at[top.len()..]).to_vec();
            let kind = match &node.content {
                Content::Directory => TreeKind::Directory,
                Content::File(bytes) => TreeKind::File { size: bytes.len() as u64 },
                Content::Symlink(target) => TreeKind::Symlink { target: target.clone() },
            };
            let (mode, uid, gid, modified_ns) = (node.mode, node.uid, node.gid, node.modified_ns);
            let xattrs = Vec::new();
            left.push_back(TreeItem::Entry(TreeEntry {
                path: below,
                kind,
                mode,
                uid,
                gid,
                modified_ns,
                xattrs,
            }));
            if let Content::File(bytes) = &node.content
                && !bytes.is_empty()
            {
                left.push_back(TreeItem::Content(bytes.clone()));
            }
        }
        Ok(Self { left })
    }
}

#[async_trait]
impl TreeReader for Sending {
    async fn next(&mut self) -> Result<Option<TreeItem>, LinkError> {
        Ok(self.left.pop_front())
    }
}

pub(super) struct Receiving {
    machine: Arc<Machine>,
    top: Vec<u8>,
    options: TreeOptions,
    /// The file whose content comes, with its mode, and how much of it is missing.
    file: Option<(Vec<u8>, u32, u64)>,
    written: u64,
}

impl Receiving {
    pub fn new(machine: Arc<Machine>, top: &[u8], options: TreeOptions) -> Self {
        Self { machine, top: top.to_vec(), options, file: None, written: 0 }
    }

    fn require_whole(&self) -> Result<(), LinkError> {
        match self.file {
            Some((.., missing)) if missing > 0 => Err(LinkError::TreeContent(missing)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl TreeWriter for Receiving {
    async fn entry(&mut self, entry: &TreeEntry) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        self.require_whole()?;
        let path = match entry.path.is_empty() {
            true => self.top.clone(),
            false => [&self.top, &b"/"[..], &entry.path].concat(),
        };
        let mut tree = locked(&self.machine.disk);
        let made = match &entry.kind {
            TreeKind::Directory => tree.mkdir(&path, Some(entry.mode), true),
            TreeKind::File { size } => {
                self.file = Some((path.clone(), entry.mode, *size));
                tree.write(
                    &path,
                    Vec::new(),
                    WriteOptions { mode: Some(entry.mode), ..WriteOptions::default() },
                )
            }
            TreeKind::Symlink { target } => tree.symlink(&path, target),
            _ => Err(invalid("a fake machine has only directories, files and symbolic links")),
        };
        made.map_err(LinkError::Guest)?;
        if self.options.owners {
            tree.set_owner(&path, entry.uid, entry.gid);
        }
        Ok(())
    }

    async fn content(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.machine.require_alive()?;
        let Some((path, mode, missing)) = &mut self.file else {
            return Err(LinkError::TreeContent(bytes.len() as u64));
        };
        *missing =
            missing.checked_sub(bytes.len() as u64).ok_or(LinkError::TreeContent(bytes.len() as u64))?;
        let options = WriteOptions { mode: Some(*mode), append: true, parents: false };
        let written = locked(&self.machine.disk).write(path, bytes.to_vec(), options);
        written.map_err(LinkError::Guest)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<u64, LinkError> {
        self.machine.require_alive()?;
        self.require_whole()?;
        Ok(self.written)
    }
}
