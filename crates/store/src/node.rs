//! What a tree consists of.

use crate::id::{ObjectId, TreeId};

/// A point in time with nanoseconds.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Time {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
}

/// What every file and directory has. The access time is not kept.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Meta {
    /// Permission bits with setuid, setgid and sticky: at most `0o7777`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last modification.
    pub mtime: Time,
    /// Extended attributes, if there are any.
    pub attributes: Option<ObjectId>,
}

/// Where the bytes of a file are. Equal bytes have equal contents.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Content {
    /// No bytes.
    Empty,
    /// One blob.
    Blob(ObjectId),
    /// A list of chunks and holes.
    Chunked(ObjectId),
}

/// Files of one tree with the same number, content and metadata are one file with several names.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct LinkGroup(pub u64);

/// A regular file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct File {
    /// Mode, owner, time, attributes.
    pub meta: Meta,
    /// Size in bytes.
    pub size: u64,
    /// Where its bytes are.
    pub content: Content,
    /// Set if the file has several names in the tree.
    pub link: Option<LinkGroup>,
}

/// One thing in a tree.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Node {
    /// A directory; its metadata is in its own object.
    Directory(TreeId),
    /// A regular file.
    File(File),
    /// A symbolic link. Its target is data: nothing in the store follows it.
    Symlink {
        /// Owner and time; the mode is 0o777.
        meta: Meta,
        /// Where it points.
        target: Box<[u8]>,
    },
    /// A named pipe.
    Fifo {
        /// Mode, owner, time, attributes.
        meta: Meta,
    },
}

impl Node {
    /// The kind, without its data.
    pub fn kind(&self) -> NodeKind {
        match self {
            Self::Directory(_) => NodeKind::Directory,
            Self::File(_) => NodeKind::File,
            Self::Symlink { .. } => NodeKind::Symlink,
            Self::Fifo { .. } => NodeKind::Fifo,
        }
    }

    /// Metadata of anything but a directory.
    pub fn meta(&self) -> Option<&Meta> {
        match self {
            Self::Directory(_) => None,
            Self::File(file) => Some(&file.meta),
            Self::Symlink { meta, .. } | Self::Fifo { meta } => Some(meta),
        }
    }
}

/// The kinds of things in a tree.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
}

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// A valid name (`is_valid_name`).
    pub name: Box<[u8]>,
    /// What it names.
    pub node: Node,
}
