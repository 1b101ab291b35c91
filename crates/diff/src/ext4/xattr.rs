//! Extended attributes: in the inode, in a separate block, and with values in separate inodes.

use std::collections::BTreeMap;

use super::fields::{le16, le32};
use super::inode::Inode;
use super::map;
use super::volume::Volume;
use crate::error::Ext4Error;

const HEADER: usize = 16;
const BLOCK_HEADER: usize = 32;
const MAGIC_BLOCK: u32 = 0xea02_0000;
/// The limit of Linux.
const MAX_VALUE: usize = 64 << 10;
/// The attribute that contains the rest of an inode's inline data.
const INLINE_DATA: (u8, &[u8]) = (7, b"data");

/// The number of a prefix, and the rest of the name.
pub(crate) type Name = (u8, Vec<u8>);

/// Returns all extended attributes of an inode.
pub(crate) fn xattrs(volume: &Volume<'_>, inode: &Inode) -> Result<BTreeMap<Name, Vec<u8>>, Ext4Error> {
    let mut found = BTreeMap::new();
    let block = match inode.attribute_block() {
        0 => None,
        number => Some(volume.block(number)?),
    };
    if let Some(block) = &block {
        if le32(block, 0) != MAGIC_BLOCK {
            return Err(damaged(inode, "its attribute block is invalid"));
        }
        collect(volume, inode, block, BLOCK_HEADER, &mut found)?;
    }
    // Attributes in the inode take precedence, so they are inserted last.
    if let Some(area) = inode.attribute_area() {
        collect(volume, inode, area, 0, &mut found)?;
    }
    found.retain(|(prefix, name), _| (*prefix, name.as_slice()) != INLINE_DATA);
    Ok(found)
}

/// The inline data of an inode, regardless of its size.
pub(super) fn inline_data(inode: &Inode) -> Result<Vec<u8>, Ext4Error> {
    let mut data = inode.block_field().to_vec();
    data.extend(inline_tail(inode)?);
    Ok(data)
}

/// The part of the inline data that is stored as an attribute.
pub(super) fn inline_tail(inode: &Inode) -> Result<Vec<u8>, Ext4Error> {
    let Some(area) = inode.attribute_area() else { return Ok(Vec::new()) };
    for entry in entries(inode, area, 0) {
        let entry = entry?;
        if (entry.prefix, entry.name) == INLINE_DATA {
            return Ok(entry.value(area).ok_or_else(|| damaged(inode, OUTSIDE))?.to_vec());
        }
    }
    Ok(Vec::new())
}

const OUTSIDE: &str = "the value of an attribute is out of bounds";

fn collect(
    volume: &Volume<'_>,
    inode: &Inode,
    area: &[u8],
    start: usize,
    found: &mut BTreeMap<Name, Vec<u8>>,
) -> Result<(), Ext4Error> {
    for entry in entries(inode, area, start) {
        let entry = entry?;
        let value = match entry.value_inode {
            0 => entry.value(area).ok_or_else(|| damaged(inode, OUTSIDE))?.to_vec(),
            number => value_in_inode(volume, number, entry.value_length)?,
        };
        found.insert((entry.prefix, entry.name.to_vec()), value);
    }
    Ok(())
}

fn value_in_inode(volume: &Volume<'_>, number: u32, length: usize) -> Result<Vec<u8>, Ext4Error> {
    let inode = volume.inode(number)?;
    if !inode.is_attribute_value() || inode.size() != length as u64 || length > MAX_VALUE {
        return Err(damaged(&inode, "it should contain an attribute value but does not"));
    }
    let block_size = volume.shape().block_size();
    let mut value = vec![0; length];
    for run in map::runs(volume, &inode)? {
        let start = (run.logical * block_size) as usize;
        let end = (start + (run.blocks * block_size) as usize).min(length);
        if let Some(part) = value.get_mut(start..end) {
            volume.data(run.physical * block_size, part)?;
        }
    }
    Ok(value)
}

struct Entry<'a> {
    prefix: u8,
    name: &'a [u8],
    value_offset: usize,
    value_inode: u32,
    value_length: usize,
}

impl<'a> Entry<'a> {
    fn value(&self, area: &'a [u8]) -> Option<&'a [u8]> {
        match self.value_length {
            0 => Some(&[]),
            length => area.get(self.value_offset..)?.get(..length),
        }
    }
}

/// Iterates over the entries from `start` to the four zero bytes that end them.
fn entries<'a>(
    inode: &Inode,
    area: &'a [u8],
    start: usize,
) -> impl Iterator<Item = Result<Entry<'a>, Ext4Error>> {
    let mut at = start;
    std::iter::from_fn(move || {
        let header = area.get(at..)?;
        if header.len() < 4 || le32(header, 0) == 0 {
            return None;
        }
        let length = usize::from(*header.first()?);
        let Some(name) = header.get(HEADER..HEADER + length) else {
            // Stop after an entry that does not fit.
            at = area.len();
            return Some(Err(damaged(inode, "the name of an attribute does not fit")));
        };
        at += (HEADER + length).next_multiple_of(4);
        Some(Ok(Entry {
            prefix: *header.get(1)?,
            name,
            value_offset: le16(header, 2).into(),
            value_inode: le32(header, 4),
            value_length: le32(header, 8) as usize,
        }))
    })
}

fn damaged(inode: &Inode, reason: &'static str) -> Ext4Error {
    Ext4Error::Damaged { inode: inode.number, reason }
}
