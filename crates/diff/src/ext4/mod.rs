//! A read-only ext4 implementation that trusts nothing on the disk.

mod content;
mod directory;
mod fields;
mod inode;
mod journal;
mod map;
mod superblock;
mod volume;
mod xattr;

pub(crate) use content::{Content, Place};
pub(crate) use directory::{Listing, list};
pub(crate) use inode::{Identity, Inode};
pub(crate) use map::runs;
pub(crate) use superblock::ROOT;
pub(crate) use volume::Volume;
pub(crate) use xattr::xattrs;
