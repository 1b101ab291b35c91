//! A pair of file systems, and the differences between an inode of each.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use agentiso_core::ports::DiskView;

use super::clean::Clean;
use crate::change::{Aspect, EntryKind};
use crate::error::DiffError;
use crate::ext4::{self, Inode, Listing, Volume};

/// Both file systems.
pub(super) struct Pair<'a> {
    pub(super) before: Volume<'a>,
    pub(super) after: Volume<'a>,
    pub(super) clean: Clean,
    /// Whether the file systems have a common origin, so that equal inode identities mean the same file.
    pub(super) is_related: bool,
    /// Results for the content of hard-linked files, by both inodes: they are found once per name.
    compared: RefCell<HashMap<(u32, u32), bool>>,
}

/// An inode of each side.
pub(super) struct Inodes {
    pub(super) before: Inode,
    pub(super) after: Inode,
    /// Whether both are byte for byte the same.
    is_same: bool,
}

impl<'a> Pair<'a> {
    pub(super) fn open(before: &'a dyn DiskView, after: &'a dyn DiskView) -> Result<Self, DiffError> {
        let mut clean = Clean::find(before, after)?;
        let (before, after) = (
            Volume::open(before).map_err(DiffError::Before)?,
            Volume::open(after).map_err(DiffError::After)?,
        );
        let mut replayed = Vec::new();
        for volume in [&before, &after] {
            let size = volume.shape().block_size();
            replayed.extend(volume.replayed_blocks().map(|block| (block * size, (block + 1) * size)));
        }
        clean.exclude(replayed);
        let is_related = before.shape().uuid == after.shape().uuid;
        Ok(Self { before, after, clean, is_related, compared: RefCell::default() })
    }

    /// Reads an inode of each side, or just one if they are known to be the same.
    pub(super) fn inodes(&self, before: u32, after: u32) -> Result<Inodes, DiffError> {
        let place = self.before.inode_offset(before).map_err(DiffError::Before)?;
        let other = self.after.inode_offset(after).map_err(DiffError::After)?;
        let length = self.before.inode_length();
        let is_shared = before == after
            && place == other
            && length == self.after.inode_length()
            && self.clean.covers(place, length);
        let one = self.before.inode(before).map_err(DiffError::Before)?;
        if is_shared {
            return Ok(Inodes { after: one.clone(), before: one, is_same: true });
        }
        let other = self.after.inode(after).map_err(DiffError::After)?;
        let is_same = one.raw == other.raw;
        Ok(Inodes { before: one, after: other, is_same })
    }

    /// Lists a directory of each side, or just one if they are known to be the same.
    pub(super) fn listings(
        &self,
        inodes: &Inodes,
        limits: (u64, u64),
    ) -> Result<(Rc<Listing>, Rc<Listing>), DiffError> {
        let before = Rc::new(ext4::list(&self.before, &inodes.before, limits.0).map_err(DiffError::Before)?);
        if inodes.is_same && self.is_data_surely_same(inodes)? {
            return Ok((before.clone(), before));
        }
        let after = ext4::list(&self.after, &inodes.after, limits.1).map_err(DiffError::After)?;
        Ok((before, Rc::new(after)))
    }

    /// The aspects in which two inodes differ.
    pub(super) fn aspects(&self, inodes: &Inodes) -> Result<BTreeSet<Aspect>, DiffError> {
        let (before, after) = (&inodes.before, &inodes.after);
        let mut aspects = BTreeSet::new();
        let mut note = |differs: bool, aspect| {
            if differs {
                aspects.insert(aspect);
            }
        };
        if !inodes.is_same {
            note(before.mode() != after.mode(), Aspect::Mode);
            note(before.owner() != after.owner(), Aspect::Owner);
        }
        note(self.attributes_differ(inodes)?, Aspect::Xattr);
        if before.kind() != after.kind() {
            note(true, Aspect::Type);
            return Ok(aspects);
        }
        match before.kind() {
            Some(EntryKind::File) => note(self.content_differs(inodes)?, Aspect::Content),
            Some(EntryKind::Symlink) => note(self.content_differs(inodes)?, Aspect::Target),
            Some(EntryKind::CharacterDevice | EntryKind::BlockDevice) => {
                note(before.device() != after.device(), Aspect::Device);
            }
            _ => {}
        }
        Ok(aspects)
    }

    fn attributes_differ(&self, inodes: &Inodes) -> Result<bool, DiffError> {
        let block = inodes.before.attribute_block();
        let size = self.before.shape().block_size();
        // Attribute values in separate inodes can change without any change to this inode.
        let is_all_here =
            !self.before.shape().has_attribute_inodes() && !self.after.shape().has_attribute_inodes();
        let is_block_same = block == 0
            || size == self.after.shape().block_size() && self.clean.covers(block.saturating_mul(size), size);
        if inodes.is_same && is_all_here && is_block_same {
            return Ok(false);
        }
        let before = ext4::xattrs(&self.before, &inodes.before).map_err(DiffError::Before)?;
        let after = ext4::xattrs(&self.after, &inodes.after).map_err(DiffError::After)?;
        Ok(before != after)
    }

    /// Whether the content of two files, or the targets of two links, differ.
    fn content_differs(&self, inodes: &Inodes) -> Result<bool, DiffError> {
        if inodes.before.size() != inodes.after.size() {
            return Ok(true);
        }
        let has_names = inodes.before.links() > 1 && inodes.after.links() > 1;
        let key = (inodes.before.number, inodes.after.number);
        if has_names && let Some(known) = self.compared.borrow().get(&key) {
            return Ok(*known);
        }
        let differs = if inodes.is_same && self.is_data_surely_same(inodes)? {
            false
        } else {
            self.differ_when_read(&inodes.before, &inodes.after)?
        };
        if has_names {
            self.compared.borrow_mut().insert(key, differs);
        }
        Ok(differs)
    }

    /// Whether the data of the same inode is known to be unchanged, without reading it.
    fn is_data_surely_same(&self, inodes: &Inodes) -> Result<bool, DiffError> {
        let inode = &inodes.before;
        if inode.has_inline_data() || inode.is_short_link() {
            return Ok(true);
        }
        let size = self.before.shape().block_size();
        if !inode.maps_itself() || size != self.after.shape().block_size() {
            return Ok(false);
        }
        let runs = ext4::runs(&self.before, inode).map_err(DiffError::Before)?;
        // The other side would reject blocks that it does not have. That only matters if the disks differ in size, and
        // then those blocks are not clean.
        Ok(runs.iter().all(|run| self.clean.covers(run.physical * size, run.blocks * size)))
    }
}
