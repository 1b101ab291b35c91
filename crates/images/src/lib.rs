//! Images on the host: sources of root file systems, the image store, the guest kernel and its initramfs.
//!
//! Nothing here needs root or mounts anything. A blank file system is made with `mke2fs` and filled inside a virtual
//! machine; this crate only turns archives, directories and registry images into a checked, ordered sequence of entries.
//!
//! All functions block, except the async ones ([`source::pull`] and [`open_origin`]).

pub mod access;
pub mod archive;
pub mod debian;
pub mod ext4;
pub mod initramfs;
pub mod kernel;
mod lines;
mod origin;
pub mod pack;
mod partial;
pub mod source;
mod sparse;
pub mod store;
pub mod tools;
mod unpack;

pub use origin::{CancelOnDrop, default_image_name, open_origin, recipes};
