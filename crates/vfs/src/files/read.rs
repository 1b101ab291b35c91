//! Reads the bytes of files.

use std::io::Write;
use std::ops::Range;

use agentiso_store::{File, Node, Piece, StoreError, TreePath, pieces, read_content, read_range};

use super::stat::{Stat, stat_node};
use super::view::View;
use crate::VfsError;

/// A file, or a part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileBytes {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where they begin in the file.
    pub offset: u64,
    /// The whole file.
    pub stat: Stat,
}

impl View {
    /// Reads a file, or a range of it. More than `max` bytes are an error, unless a range is given, which is cut.
    pub fn read(
        &self,
        path: &TreePath,
        range: Option<Range<u64>>,
        max: usize,
    ) -> Result<FileBytes, VfsError> {
        let (found, file) = self.file(path)?;
        let stat = stat_node(&self.store, found.clone(), &Node::File(file))?;
        if let Some(range) = range {
            let len = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX).min(max);
            let bytes = read_range(&self.store, file.content, file.size, range.start, len)?;
            return Ok(FileBytes { bytes, offset: range.start, stat });
        }
        if file.size > max as u64 {
            return Err(VfsError::TooLarge { path: found, size: file.size, max: max as u64 });
        }
        let bytes = read_content(&self.store, file.content, file.size, max)?;
        Ok(FileBytes { bytes, offset: 0, stat })
    }

    /// Writes the bytes of a file to a stream; returns their number.
    pub fn copy_out(&self, path: &TreePath, out: &mut dyn Write) -> Result<u64, VfsError> {
        static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
        let (found, file) = self.file(path)?;
        let failed = |source| StoreError::Io { what: "write", path: found.as_host().to_owned(), source };
        pieces(&self.store, file.content, file.size, |piece| match piece {
            Piece::Data(bytes) => out.write_all(bytes).map_err(failed),
            Piece::Hole(mut left) => {
                while left > 0 {
                    let len = left.min(ZEROS.len() as u64);
                    out.write_all(ZEROS.get(..len as usize).unwrap_or_default()).map_err(failed)?;
                    left -= len;
                }
                Ok(())
            }
        })?;
        Ok(file.size)
    }

    /// The file that a path names, through links.
    pub(crate) fn file(&self, path: &TreePath) -> Result<(TreePath, File), VfsError> {
        match self.node(path, true)? {
            (found, Node::File(file)) => Ok((found, file)),
            (path, Node::Directory(_)) => Err(VfsError::IsADirectory { path }),
            (path, _) => Err(VfsError::NotAFile { path }),
        }
    }
}
