//! Decodes and checks the superblock.

use super::fields::{joined, le16, le32};
use crate::error::Ext4Error;

/// Offset and size of the superblock.
pub(super) const PLACE: u64 = 1024;
pub(super) const LENGTH: usize = 1024;
/// The inode number of the root directory.
pub(crate) const ROOT: u32 = 2;

const COMPAT_SPARSE_SUPER2: u32 = 0x200;
const INCOMPAT_RECOVER: u32 = 0x4;
const INCOMPAT_META_BG: u32 = 0x10;
const INCOMPAT_64BIT: u32 = 0x80;
const INCOMPAT_EA_INODE: u32 = 0x400;
const INCOMPAT_LARGE_DIR: u32 = 0x4000;
const RO_COMPAT_SPARSE_SUPER: u32 = 0x1;
/// The incompatible features that this reader supports: file types in directories, recovery, meta groups, extents,
/// 64-bit, multiple-mount protection, flexible groups, attributes in inodes, checksum seed, large directories, inline
/// data, case folding.
const READABLE: u32 = 0x2
    | INCOMPAT_RECOVER
    | INCOMPAT_META_BG
    | 0x40
    | INCOMPAT_64BIT
    | 0x100
    | 0x200
    | INCOMPAT_EA_INODE
    | 0x2000
    | INCOMPAT_LARGE_DIR
    | 0x8000
    | 0x20000;

/// The checked parameters of a file system.
#[derive(Clone, Debug)]
pub(crate) struct Superblock {
    pub(super) inodes: u32,
    pub(super) blocks: u64,
    pub(super) block_size: u32,
    pub(super) inode_size: u16,
    pub(super) inodes_per_group: u32,
    pub(super) first_inode: u32,
    pub(super) journal_inode: u32,
    pub(crate) uuid: [u8; 16],
    first_block: u32,
    blocks_per_group: u32,
    descriptor_size: u16,
    first_meta_group: u32,
    backup_groups: [u32; 2],
    compat: u32,
    incompat: u32,
    ro_compat: u32,
}

impl Superblock {
    pub(super) fn parse(bytes: &[u8], disk_size: u64) -> Result<Self, Ext4Error> {
        let not = |reason| Ext4Error::NotExt4 { reason };
        if le16(bytes, 0x38) != 0xef53 {
            return Err(not("its superblock has no magic number"));
        }
        let dynamic = le32(bytes, 0x4c) > 0;
        let incompat = le32(bytes, 0x60);
        let has_64bit = incompat & INCOMPAT_64BIT != 0;
        if incompat & !READABLE != 0 {
            return Err(Ext4Error::Unsupported { feature: unreadable(incompat & !READABLE) });
        }
        let block_size = match le32(bytes, 0x18) {
            shift @ 0..=6 => 1024u32 << shift,
            _ => return Err(not("its block size is out of range")),
        };
        let shape = Self {
            inodes: le32(bytes, 0x0),
            blocks: joined(if has_64bit { le32(bytes, 0x150) } else { 0 }, le32(bytes, 0x4)),
            block_size,
            inode_size: if dynamic { le16(bytes, 0x58) } else { 128 },
            inodes_per_group: le32(bytes, 0x28),
            first_inode: if dynamic { le32(bytes, 0x54) } else { 11 },
            journal_inode: le32(bytes, 0xe0),
            uuid: bytes.get(0x68..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default(),
            first_block: le32(bytes, 0x14),
            blocks_per_group: le32(bytes, 0x20),
            descriptor_size: if has_64bit { le16(bytes, 0xfe) } else { 32 },
            first_meta_group: le32(bytes, 0x104),
            backup_groups: [le32(bytes, 0x24c), le32(bytes, 0x250)],
            compat: le32(bytes, 0x5c),
            incompat,
            ro_compat: le32(bytes, 0x64),
        };
        shape.check(disk_size)?;
        Ok(shape)
    }

    fn check(&self, disk_size: u64) -> Result<(), Ext4Error> {
        let sound_inode_size =
            self.inode_size.is_power_of_two() && (128..=self.block_size).contains(&self.inode_size.into());
        let sound_descriptors =
            self.descriptor_size.is_power_of_two() && (32..=1024).contains(&self.descriptor_size);
        let bytes = self.blocks.checked_mul(self.block_size.into());
        let reason = if bytes.is_none_or(|bytes| bytes > disk_size) {
            "its file system is larger than it"
        } else if u64::from(self.first_block) >= self.blocks {
            "its first block is beyond the last"
        } else if !sound_inode_size {
            "its inodes have an impossible size"
        } else if !sound_descriptors {
            "its group descriptors have an impossible size"
        } else if self.blocks_per_group == 0 || self.inodes_per_group == 0 {
            "its groups are empty"
        } else if u64::from(self.inodes) > self.groups().saturating_mul(self.inodes_per_group.into()) {
            "it counts more inodes than its groups hold"
        } else {
            return Ok(());
        };
        Err(Ext4Error::NotExt4 { reason })
    }

    pub(super) fn needs_recovery(&self) -> bool {
        self.incompat & INCOMPAT_RECOVER != 0
    }

    /// Whether values of extended attributes may be stored in separate inodes.
    pub(crate) fn has_attribute_inodes(&self) -> bool {
        self.incompat & INCOMPAT_EA_INODE != 0
    }

    pub(super) fn has_large_directories(&self) -> bool {
        self.incompat & INCOMPAT_LARGE_DIR != 0
    }

    pub(crate) fn block_size(&self) -> u64 {
        self.block_size.into()
    }

    pub(super) fn has_wide_descriptors(&self) -> bool {
        self.descriptor_size >= 64
    }

    /// The block that contains a group's descriptor, and the offset in it.
    pub(super) fn descriptor_place(&self, group: u64) -> (u64, usize) {
        let per_block = u64::from(self.block_size / u32::from(self.descriptor_size));
        let index = group / per_block;
        let within = (group % per_block) as usize * usize::from(self.descriptor_size);
        let in_meta_group =
            self.incompat & INCOMPAT_META_BG != 0 && index >= u64::from(self.first_meta_group);
        let block = if in_meta_group {
            let first = index.saturating_mul(per_block);
            self.first_block_of(first).saturating_add(u64::from(self.has_backup(first)))
        } else {
            u64::from(self.first_block) + 1 + index
        };
        (block, within)
    }

    fn groups(&self) -> u64 {
        (self.blocks - u64::from(self.first_block)).div_ceil(self.blocks_per_group.into())
    }

    fn first_block_of(&self, group: u64) -> u64 {
        group.saturating_mul(self.blocks_per_group.into()).saturating_add(self.first_block.into())
    }

    /// Whether a group begins with a backup of the superblock.
    fn has_backup(&self, group: u64) -> bool {
        if group == 0 {
            return true;
        }
        if self.compat & COMPAT_SPARSE_SUPER2 != 0 {
            return self.backup_groups.iter().any(|backup| u64::from(*backup) == group);
        }
        self.ro_compat & RO_COMPAT_SPARSE_SUPER == 0
            || group == 1
            || [3, 5, 7].into_iter().any(|base| is_power_of(group, base))
    }
}

fn is_power_of(mut number: u64, base: u64) -> bool {
    while number > 1 && number.is_multiple_of(base) {
        number /= base;
    }
    number == 1
}

fn unreadable(features: u32) -> String {
    match features {
        features if features & 0x1 != 0 => "compression".to_owned(),
        features if features & 0x8 != 0 => "the whole disk as a journal".to_owned(),
        features if features & 0x10000 != 0 => "encryption".to_owned(),
        features => format!("unknown features ({features:#x})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn backups_are_in_the_same_groups_as_with_mke2fs() {
        let powers: Vec<u64> = (1..130)
            .filter(|&group| group == 1 || [3, 5, 7].iter().any(|&b| is_power_of(group, b)))
            .collect();
        assert_eq!(powers, [1, 3, 5, 7, 9, 25, 27, 49, 81, 125]);
    }

    proptest! {
        #[test]
        fn parsing_a_superblock_never_panics(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..1100),
            small in any::<bool>(),
        ) {
            if bytes.len() > 0x64 {
                bytes[0x38..0x3a].copy_from_slice(&[0x53, 0xef]);
                bytes[0x60..0x64].copy_from_slice(&0xc2u32.to_le_bytes());
                if small {
                    bytes[0x18..0x1c].fill(0);
                    bytes[0x6..0x8].fill(0);
                }
            }
            if let Ok(shape) = Superblock::parse(&bytes, u64::MAX) {
                let _ = shape.descriptor_place(u64::from(u32::MAX));
            }
        }
    }
}
