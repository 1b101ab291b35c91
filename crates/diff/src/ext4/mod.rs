//! A reader of ext4 file systems that believes nothing it reads.

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
