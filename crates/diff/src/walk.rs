//! Lists all files of a disk.

use std::io::{self, Read};

use agentiso_core::ports::DiskView;

use crate::change::{EntryInfo, EntryKind};
use crate::error::Ext4Error;
use crate::ext4::{self, Content, Inode, ROOT, Volume};

/// The limit of Linux.
const PATH_MAX: usize = 4096;
const LINK_MAX: u64 = 4095;
const PIECE: u64 = 256 << 10;

/// A file, directory, link or device on a disk.
#[derive(Debug)]
pub struct Found<'a> {
    /// Path relative to the root, without a leading slash; empty for the root itself.
    pub path: &'a [u8],
    /// Inode number. Two paths with the same inode are the same file.
    pub inode: u32,
    /// Type, size, mode, owner and times.
    pub info: EntryInfo,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Extended attributes with their full names, in the format that programs see.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Called for each file, with a reader of its bytes if it is a regular file.
pub type Visitor<'a> = dyn FnMut(Found<'_>, &mut dyn Read) -> io::Result<()> + 'a;

/// Visits everything on a disk: parents first, names in order.
///
/// # Errors
///
/// If the disk cannot be read, has more than `max_entries` entries, or the visitor fails.
pub fn walk(view: &dyn DiskView, max_entries: u64, visitor: &mut Visitor<'_>) -> Result<(), WalkError> {
    let volume = Volume::open(view)?;
    let mut walk = Walk { volume: &volume, left: max_entries, max_entries, visitor };
    walk.visit(&[], &volume.inode(ROOT)?)?;
    let mut waiting = vec![(Vec::new(), ROOT)];
    while let Some((path, number)) = waiting.pop() {
        let below = walk.directory(&path, number)?;
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

/// Why a walk ended early.
#[derive(Debug, thiserror::Error)]
pub enum WalkError {
    /// The disk cannot be read.
    #[error(transparent)]
    Disk(#[from] Ext4Error),
    /// The visitor failed.
    #[error(transparent)]
    Visitor(io::Error),
}

struct Walk<'w, 'd, 'v> {
    volume: &'w Volume<'d>,
    left: u64,
    max_entries: u64,
    visitor: &'w mut Visitor<'v>,
}

impl Walk<'_, '_, '_> {
    /// Visits the entries of a directory and returns its subdirectories. Every entry counts against the limit, so a
    /// directory that contains itself does not loop for ever.
    fn directory(&mut self, path: &[u8], number: u32) -> Result<Vec<(Vec<u8>, u32)>, WalkError> {
        let inode = self.volume.inode(number)?;
        let listing = ext4::list(self.volume, &inode, self.left)?;
        let mut below = Vec::new();
        for index in 0..listing.len() {
            let Some((name, number)) = listing.get(index) else { break };
            let Some(left) = self.left.checked_sub(1) else {
                return Err(Ext4Error::TooLarge { what: "entries", limit: self.max_entries }.into());
            };
            self.left = left;
            let mut child = path.to_vec();
            if !child.is_empty() {
                child.push(b'/');
            }
            child.extend_from_slice(name);
            if child.len() >= PATH_MAX {
                return Err(Ext4Error::TooLarge { what: "bytes in a path", limit: PATH_MAX as u64 }.into());
            }
            let inode = self.volume.inode(number)?;
            self.visit(&child, &inode)?;
            if inode.kind() == Some(EntryKind::Directory) {
                below.push((child, number));
            }
        }
        Ok(below)
    }

    fn visit(&mut self, path: &[u8], inode: &Inode) -> Result<(), WalkError> {
        let damaged = |reason| Ext4Error::Damaged { inode: inode.number, reason };
        let info = inode.info().ok_or_else(|| damaged("it has an unknown type"))?;
        let content = || Content::of(self.volume, inode);
        let target = match info.kind {
            EntryKind::Symlink if info.size > LINK_MAX => {
                return Err(Ext4Error::TooLarge { what: "bytes in a link", limit: LINK_MAX }.into());
            }
            EntryKind::Symlink => content()?.read(info.size)?,
            _ => Vec::new(),
        };
        let xattrs = ext4::xattrs(self.volume, inode)?;
        let xattrs = xattrs.into_iter().filter_map(|(name, value)| seen_by_programs(name, value)).collect();
        let size = info.size;
        let found = Found { path, inode: inode.number, target, device: inode.device(), xattrs, info };
        let visited = match found.info.kind {
            EntryKind::File => {
                let mut reader = FileReader { content: content()?, at: 0, size, piece: Vec::new(), used: 0 };
                (self.visitor)(found, &mut reader)
            }
            _ => (self.visitor)(found, &mut io::empty()),
        };
        visited.map_err(WalkError::Visitor)
    }
}

/// Reads a file's bytes, with holes as zeros.
struct FileReader<'v, 'd> {
    content: Content<'v, 'd>,
    at: u64,
    size: u64,
    piece: Vec<u8>,
    used: usize,
}

impl Read for FileReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.piece.len() {
            if self.at >= self.size {
                return Ok(0);
            }
            let part = self.content.part(self.at, self.size);
            let filled = self.content.fill(part.place, part.length.min(PIECE), &mut self.piece);
            filled.map_err(io::Error::other)?;
            self.at += self.piece.len() as u64;
            self.used = 0;
        }
        let rest = &self.piece[self.used..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.used += count;
        Ok(count)
    }
}

/// Converts an attribute to what programs see: its full name, and access control lists in the format of the system
/// call.
fn seen_by_programs((prefix, name): (u8, Vec<u8>), value: Vec<u8>) -> Option<(Vec<u8>, Vec<u8>)> {
    let full = |start: &[u8]| [start, &name].concat();
    match prefix {
        1 => Some((full(b"user."), value)),
        2 => Some((b"system.posix_acl_access".to_vec(), access_list(&value)?)),
        3 => Some((b"system.posix_acl_default".to_vec(), access_list(&value)?)),
        4 => Some((full(b"trusted."), value)),
        6 => Some((full(b"security."), value)),
        // The others are internal to the kernel.
        _ => None,
    }
}

/// Converts an access control list from the on-disk format (version 1: ids only where needed) to that of the system
/// call (version 2: an id in every entry). Returns `None` if it is malformed.
fn access_list(stored: &[u8]) -> Option<Vec<u8>> {
    const NAMED: [u16; 2] = [0x02, 0x08];
    let mut rest = stored.strip_prefix(&1_u32.to_le_bytes())?;
    let mut seen = 2_u32.to_le_bytes().to_vec();
    while !rest.is_empty() {
        let (entry, more) = rest.split_at_checked(4)?;
        seen.extend_from_slice(entry);
        let tag = u16::from_le_bytes([entry[0], entry[1]]);
        rest = if NAMED.contains(&tag) {
            let (id, more) = more.split_at_checked(4)?;
            seen.extend_from_slice(id);
            more
        } else {
            seen.extend_from_slice(&u32::MAX.to_le_bytes());
            more
        };
    }
    Some(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_control_list_is_converted_to_the_format_of_the_system_call() {
        // user::rw-, user:1000:r--, group::r--, mask::r--, other::---
        let stored =
            [1, 0, 0, 0, 1, 0, 6, 0, 2, 0, 4, 0, 0xe8, 3, 0, 0, 4, 0, 4, 0, 0x10, 0, 4, 0, 0x20, 0, 0, 0];
        let seen = access_list(&stored).unwrap();
        assert_eq!(seen.len(), 4 + 5 * 8);
        assert_eq!(&seen[..20], [2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 0xe8, 3, 0, 0]);
        assert_eq!(access_list(&[1, 0, 0, 0]), Some(vec![2, 0, 0, 0]));
        for broken in [&[][..], &[2, 0, 0, 0], &stored[..9], &stored[..14]] {
            assert_eq!(access_list(broken), None, "{broken:?}");
        }
    }
}
