//! Reads one file of a disk.

use agentiso_core::ports::DiskView;

use crate::change::EntryKind;
use crate::error::Ext4Error;
use crate::ext4::{self, Content, Inode, ROOT, Volume};

/// Limit on the target of a symbolic link.
const MAX_TARGET: u64 = 4096;

/// The content of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FileContent {
    /// A regular file.
    File {
        /// Its bytes, up to the limit.
        bytes: Vec<u8>,
        /// Its full size.
        size: u64,
    },
    /// A symbolic link, which is not followed.
    Symlink {
        /// Target of the link.
        target: Vec<u8>,
    },
}

impl FileContent {
    /// Whether the content exceeded the limit.
    pub fn is_truncated(&self) -> bool {
        matches!(self, Self::File { bytes, size } if (bytes.len() as u64) < *size)
    }
}

/// Reads at most `limit` bytes of the file at an absolute path. Symbolic links are not followed.
pub fn read_file(view: &dyn DiskView, path: &[u8], limit: u64) -> Result<FileContent, Ext4Error> {
    let volume = Volume::open(view)?;
    let inode = find(&volume, path)?;
    let content = |length| Content::of(&volume, &inode)?.read(length);
    match inode.kind() {
        Some(EntryKind::File) => {
            Ok(FileContent::File { bytes: content(inode.size().min(limit))?, size: inode.size() })
        }
        Some(EntryKind::Symlink) if inode.size() <= MAX_TARGET => {
            Ok(FileContent::Symlink { target: content(inode.size())? })
        }
        Some(EntryKind::Symlink) => Err(Ext4Error::TooLarge { what: "bytes in a link", limit: MAX_TARGET }),
        kind => Err(wrong_type(path, kind, "a file")),
    }
}

/// The non-empty components of a path.
pub(crate) fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// Finds the inode at an absolute path.
pub(crate) fn find(volume: &Volume<'_>, path: &[u8]) -> Result<Inode, Ext4Error> {
    let mut inode = volume.inode(ROOT)?;
    for part in parts(path) {
        if inode.kind() != Some(EntryKind::Directory) {
            return Err(wrong_type(path, inode.kind(), "below a directory"));
        }
        let found = ext4::list(volume, &inode, u64::MAX)?.find(part);
        let number = found.ok_or_else(|| Ext4Error::NotFound { path: text(path) })?;
        inode = volume.inode(number)?;
    }
    Ok(inode)
}

fn wrong_type(path: &[u8], found: Option<EntryKind>, wanted: &'static str) -> Ext4Error {
    let found = found.map_or("nothing", EntryKind::with_article);
    Ext4Error::WrongType { path: text(path), found, wanted }
}

fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}
