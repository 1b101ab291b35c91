//! The subtrees that only one side has. Stored compactly: each name once, and no full paths.

use std::ops::Range;

use super::report::{Halt, Report};
use super::walk::Side;
use crate::change::EntryKind;
use crate::error::Ext4Error;

/// Limit on the length of a reported path. Linux accepts a quarter of this in one call.
pub(super) const MAX_PATH: usize = 16 << 10;
/// Limit on the memory for names and locations.
const MAX_BYTES: usize = 1 << 30;

/// Subtrees, each attached to a directory of the tree it came from.
#[derive(Debug, Default)]
pub(super) struct Forest {
    /// The directories to which subtrees are attached.
    places: Vec<Vec<u8>>,
    names: Vec<u8>,
    nodes: Vec<Node>,
    bytes: usize,
}

#[derive(Debug)]
struct Node {
    parent: Parent,
    name_start: u32,
    name_length: u8,
    inode: u32,
    path_length: u32,
    /// Sorted by name. Children always follow their parent.
    children: Range<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Parent {
    Place(u32),
    Node(u32),
}

impl Forest {
    /// Registers a directory by its path without a trailing slash.
    pub(super) fn place(&mut self, path: &[u8]) -> Result<u32, Ext4Error> {
        self.take(path.len() + size_of::<Vec<u8>>())?;
        self.places.push(path.to_vec());
        Ok(self.places.len() as u32 - 1)
    }

    /// Adds the root of a subtree.
    pub(super) fn plant(&mut self, place: u32, name: &[u8], inode: u32) -> Result<(), Ext4Error> {
        let above = self.places.get(place as usize).map_or(0, Vec::len);
        self.push(Parent::Place(place), above, name, inode)
    }

    /// Adds everything below the roots.
    pub(super) fn grow(&mut self, side: &mut Side<'_, '_>, report: &mut Report<'_>) -> Result<(), Halt> {
        let mut index = 0;
        while let Some(node) = self.nodes.get(index) {
            let (number, above) = (node.inode, node.path_length as usize);
            let inode = side.volume.inode(number).map_err(side.on_side);
            // An unreadable inode is reported when the entry turns out to be removed, added or renamed.
            let is_directory = inode.as_ref().is_ok_and(|inode| inode.kind() == Some(EntryKind::Directory));
            let listing = match inode {
                Ok(inode) if is_directory => report.readable(|| self.path(index), side.list(&inode))?,
                Err(error) if error.damage().is_none() => return Err(error.into()),
                _ => None,
            };
            if let Some(listing) = listing {
                let first = self.nodes.len() as u32;
                for (name, child) in (0..listing.len()).filter_map(|at| listing.get(at)) {
                    self.push(Parent::Node(index as u32), above, name, child).map_err(side.on_side)?;
                }
                let last = self.nodes.len() as u32;
                if let Some(node) = self.nodes.get_mut(index) {
                    node.children = first..last;
                }
            }
            index += 1;
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn inode(&self, node: usize) -> u32 {
        self.nodes.get(node).map_or(0, |node| node.inode)
    }

    pub(super) fn name(&self, node: usize) -> &[u8] {
        self.nodes.get(node).map_or(&[], |node| {
            let start = node.name_start as usize;
            self.names.get(start..start + usize::from(node.name_length)).unwrap_or_default()
        })
    }

    pub(super) fn children(&self, node: usize) -> Range<usize> {
        self.nodes.get(node).map_or(0..0, |node| node.children.start as usize..node.children.end as usize)
    }

    pub(super) fn path(&self, node: usize) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = node;
        let place = loop {
            let Some(node) = self.nodes.get(at) else { break None };
            names.push(self.name(at));
            match node.parent {
                Parent::Node(parent) => at = parent as usize,
                Parent::Place(place) => break self.places.get(place as usize),
            }
        };
        let mut path = place.cloned().unwrap_or_default();
        for name in names.into_iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path
    }

    fn push(&mut self, parent: Parent, above: usize, name: &[u8], inode: u32) -> Result<(), Ext4Error> {
        self.take(name.len() + size_of::<Node>())?;
        let path_length = above + 1 + name.len();
        if path_length > MAX_PATH {
            return Err(Ext4Error::TooLarge { what: "bytes in a path", limit: MAX_PATH as u64 });
        }
        // The limits above keep these numbers within their types.
        self.nodes.push(Node {
            parent,
            name_start: self.names.len() as u32,
            name_length: name.len() as u8,
            inode,
            path_length: path_length as u32,
            children: 0..0,
        });
        self.names.extend_from_slice(name);
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), Ext4Error> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES {
            let what = "bytes of names that only one disk has";
            return Err(Ext4Error::TooLarge { what, limit: MAX_BYTES as u64 });
        }
        Ok(())
    }
}
