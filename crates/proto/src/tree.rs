//! Directory trees as a byte stream.
//!
//! ```text
//! repeated:  length u32 LE | TreeEntry (postcard) | content (regular files: exactly `size` bytes)
//! at the end: 0 u32
//! ```

use serde::{Deserialize, Serialize};

use crate::message::{RawPath, from_bytes, to_bytes};

/// Limit on an encoded entry: a path and a link target of 4 KiB each, and 64 KiB of extended attributes.
pub const MAX_ENTRY: usize = 96 * 1024;

/// One file, directory, link or node.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TreeEntry {
    /// Path relative to the root of the tree, without `.` or `..`; empty for the root itself.
    pub path: RawPath,
    /// Type of the entry.
    pub kind: TreeKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner's user id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Modification time in nanoseconds since the epoch.
    pub modified_ns: i64,
    /// Extended attributes: names and values.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The type of an entry.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum TreeKind {
    /// A directory.
    Directory,
    /// A regular file, followed by `size` bytes of content.
    File {
        /// Size in bytes.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Target of the link.
        target: RawPath,
    },
    /// A hard link to an earlier entry.
    Hardlink {
        /// Path of the earlier entry.
        target: RawPath,
    },
    /// A device node.
    Device {
        /// Whether it is a block device; otherwise a character device.
        block: bool,
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// Removes the path and everything below it.
    Removed,
    /// Removes everything below the path and keeps the directory.
    Emptied,
    /// A socket. It is listed but never created. Older agents omit sockets.
    Socket,
}

/// An item of a tree stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TreeItem {
    /// An entry. If it is a file, its content follows.
    Entry(TreeEntry),
    /// Some of the content of the preceding file.
    Content(Vec<u8>),
    /// The tree is complete.
    End,
}

/// Why a tree stream was rejected.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TreeError {
    /// The entry exceeds [`MAX_ENTRY`].
    #[error("tree entry of {0} bytes is longer than allowed")]
    TooLong(u32),
    /// The entry cannot be decoded.
    #[error("tree entry is malformed")]
    Malformed,
    /// The path is absolute, or has an empty, `.` or `..` component.
    #[error("tree entry has an unsafe path")]
    Path,
    /// There is data after the end of the tree.
    #[error("data after the end of the tree")]
    Trailing,
}

/// Appends an entry to `out`. The caller appends the content of a file.
pub fn encode_entry(entry: &TreeEntry, out: &mut Vec<u8>) -> Result<(), TreeError> {
    let bytes = to_bytes(entry).map_err(|_| TreeError::Malformed)?;
    let len = u32::try_from(bytes.len()).map_err(|_| TreeError::Malformed)?;
    if bytes.len() > MAX_ENTRY {
        return Err(TreeError::TooLong(len));
    }
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&bytes);
    Ok(())
}

#[derive(Debug)]
enum State {
    Length,
    Entry { need: usize },
    Content { left: u64 },
    Ended,
}

/// Decodes tree items from chunks of any size. Rejects unsafe paths. Memory is bounded by [`MAX_ENTRY`].
#[derive(Debug)]
pub struct TreeDecoder {
    state: State,
    held: Vec<u8>,
}

impl Default for TreeDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl TreeDecoder {
    /// Creates a decoder at the first entry.
    pub fn new() -> Self {
        Self { state: State::Length, held: Vec::new() }
    }

    /// Whether the end of the tree was reached.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Consumes bytes from the front of `input` up to and including the next item. Returns `None` if none is complete.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<TreeItem>, TreeError> {
        while !input.is_empty() {
            match self.state {
                State::Length => {
                    if !self.hold(4, input) {
                        return Ok(None);
                    }
                    let len = u32::from_le_bytes([self.held[0], self.held[1], self.held[2], self.held[3]]);
                    self.held.clear();
                    if len == 0 {
                        self.state = State::Ended;
                        return Ok(Some(TreeItem::End));
                    }
                    if len as usize > MAX_ENTRY {
                        return Err(TreeError::TooLong(len));
                    }
                    self.state = State::Entry { need: len as usize };
                }
                State::Entry { need } => {
                    if !self.hold(need, input) {
                        return Ok(None);
                    }
                    let entry: TreeEntry = from_bytes(&self.held).map_err(|_| TreeError::Malformed)?;
                    self.held.clear();
                    check_entry(&entry)?;
                    self.state = match entry.kind {
                        TreeKind::File { size } if size > 0 => State::Content { left: size },
                        _ => State::Length,
                    };
                    return Ok(Some(TreeItem::Entry(entry)));
                }
                State::Content { left } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    let content = input[..take].to_vec();
                    *input = &input[take..];
                    let left = left - take as u64;
                    self.state = if left == 0 { State::Length } else { State::Content { left } };
                    return Ok(Some(TreeItem::Content(content)));
                }
                State::Ended => return Err(TreeError::Trailing),
            }
        }
        Ok(None)
    }

    fn hold(&mut self, need: usize, input: &mut &[u8]) -> bool {
        let take = (need - self.held.len()).min(input.len());
        self.held.extend_from_slice(&input[..take]);
        *input = &input[take..];
        self.held.len() == need
    }
}

fn check_entry(entry: &TreeEntry) -> Result<(), TreeError> {
    let hardlink_is_safe = match &entry.kind {
        TreeKind::Hardlink { target } => !target.is_empty() && is_safe(target),
        TreeKind::Removed => !entry.path.is_empty(),
        _ => true,
    };
    if is_safe(&entry.path) && hardlink_is_safe { Ok(()) } else { Err(TreeError::Path) }
}

fn is_safe(path: &[u8]) -> bool {
    path.is_empty()
        || path.len() <= 4096
            && !path.contains(&0)
            && path.split(|&byte| byte == b'/').all(|part| !matches!(part, b"" | b"." | b".."))
}
