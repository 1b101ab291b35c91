//! Decodes inodes.

use super::fields::{joined, le16, le32};
use crate::change::{EntryInfo, EntryKind, Time};

const FLAG_EXTENTS: u32 = 0x8_0000;
const FLAG_ATTRIBUTE_VALUE: u32 = 0x20_0000;
const FLAG_INLINE_DATA: u32 = 0x1000_0000;
/// Size of the fixed part of an inode. The size of the part after it varies.
const FIXED: usize = 128;
const MAGIC_ATTRIBUTES: u32 = 0xea02_0000;

/// The raw bytes of an inode, at least 128.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) number: u32,
    pub(crate) raw: Box<[u8]>,
    large_directories: bool,
}

/// Distinguishes successive inodes with the same number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Identity {
    number: u32,
    generation: u32,
    created: Option<Time>,
    kind: EntryKind,
}

impl Inode {
    pub(super) fn new(number: u32, raw: &[u8], large_directories: bool) -> Self {
        Self { number, raw: raw.into(), large_directories }
    }

    /// The type; `None` if the inode is free or invalid.
    pub(crate) fn kind(&self) -> Option<EntryKind> {
        match le16(&self.raw, 0) >> 12 {
            0x1 => Some(EntryKind::Fifo),
            0x2 => Some(EntryKind::CharacterDevice),
            0x4 => Some(EntryKind::Directory),
            0x6 => Some(EntryKind::BlockDevice),
            0x8 => Some(EntryKind::File),
            0xa => Some(EntryKind::Symlink),
            0xc => Some(EntryKind::Socket),
            _ => None,
        }
    }

    pub(crate) fn mode(&self) -> u16 {
        le16(&self.raw, 0) & 0o7777
    }

    /// User id and group id.
    pub(crate) fn owner(&self) -> (u32, u32) {
        let half = |low, high| u32::from(le16(&self.raw, high)) << 16 | u32::from(le16(&self.raw, low));
        (half(0x2, 0x78), half(0x18, 0x7a))
    }

    pub(crate) fn size(&self) -> u64 {
        let low = le32(&self.raw, 0x4);
        let is_wide = match self.kind() {
            Some(EntryKind::File) => true,
            Some(EntryKind::Directory) => self.large_directories,
            _ => false,
        };
        joined(if is_wide { le32(&self.raw, 0x6c) } else { 0 }, low)
    }

    pub(crate) fn links(&self) -> u16 {
        le16(&self.raw, 0x1a)
    }

    /// Block map, extent tree, inline data, link target or device numbers.
    pub(crate) fn block_field(&self) -> &[u8] {
        self.raw.get(0x28..0x64).unwrap_or_default()
    }

    pub(super) fn has_extents(&self) -> bool {
        self.flags() & FLAG_EXTENTS != 0
    }

    pub(crate) fn has_inline_data(&self) -> bool {
        self.flags() & FLAG_INLINE_DATA != 0
    }

    pub(super) fn is_attribute_value(&self) -> bool {
        self.flags() & FLAG_ATTRIBUTE_VALUE != 0
    }

    /// Whether the link target is stored in [`Self::block_field`].
    pub(crate) fn is_short_link(&self) -> bool {
        self.kind() == Some(EntryKind::Symlink) && self.size() < self.block_field().len() as u64
    }

    /// Whether all block pointers are in the inode itself.
    pub(crate) fn maps_itself(&self) -> bool {
        // An extent tree of depth zero, or no indirect blocks.
        match self.has_extents() {
            true => le16(self.block_field(), 6) == 0,
            false => {
                self.block_field().get(48..).is_some_and(|indirect| indirect.iter().all(|byte| *byte == 0))
            }
        }
    }

    /// Major and minor number of a device.
    pub(crate) fn device(&self) -> (u32, u32) {
        let (old, new) = (le32(self.block_field(), 0), le32(self.block_field(), 4));
        match old {
            0 => ((new >> 8) & 0xfff, (new & 0xff) | ((new >> 12) & 0xfff00)),
            _ => ((old >> 8) & 0xff, old & 0xff),
        }
    }

    /// The block with extended attributes that do not fit in the inode; 0 for none.
    pub(crate) fn attribute_block(&self) -> u64 {
        joined(u32::from(le16(&self.raw, 0x76)), le32(&self.raw, 0x68))
    }

    /// The extended attributes in the inode, after their magic number.
    pub(super) fn attribute_area(&self) -> Option<&[u8]> {
        let area = self.raw.get(FIXED + usize::from(self.extra_length())..)?;
        (le32(area, 0) == MAGIC_ATTRIBUTES).then_some(area.get(4..)).flatten()
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        Some(Identity {
            number: self.number,
            generation: le32(&self.raw, 0x64),
            created: self.has_field(0x90, 8).then(|| self.time(0x90, 0x94)),
            kind: self.kind()?,
        })
    }

    pub(crate) fn info(&self) -> Option<EntryInfo> {
        let (uid, gid) = self.owner();
        let mtime = self.time(0x10, 0x88);
        Some(EntryInfo {
            kind: self.kind()?,
            size: self.size(),
            mode: self.mode(),
            uid,
            gid,
            mtime,
            nlink: self.links(),
        })
    }

    fn flags(&self) -> u32 {
        le32(&self.raw, 0x20)
    }

    fn extra_length(&self) -> u16 {
        if self.raw.len() > FIXED { le16(&self.raw, 0x80) } else { 0 }
    }

    fn has_field(&self, at: usize, length: usize) -> bool {
        at + length <= FIXED + usize::from(self.extra_length())
    }

    /// A timestamp. Its nanoseconds and upper bits are in the field at `extra`, if the inode has that field.
    fn time(&self, at: usize, extra: usize) -> Time {
        let seconds = i64::from(le32(&self.raw, at).cast_signed());
        if !self.has_field(extra, 4) {
            return Time { seconds, nanoseconds: 0 };
        }
        let extra = le32(&self.raw, extra);
        Time { seconds: seconds + (i64::from(extra & 3) << 32), nanoseconds: (extra >> 2).min(999_999_999) }
    }
}
