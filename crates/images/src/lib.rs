//! The host side of images: where root file systems come from and where they are kept, the guest kernel,
//! and the initramfs it starts with.
//!
//! Nothing here needs root and nothing here mounts anything. A file system is made blank with `mke2fs` and
//! filled inside a virtual machine; this crate only turns archives, directories and registry images into a
//! checked, ordered sequence of entries for whoever fills it.
//!
//! All functions block, except [`source::pull`], unless they say otherwise.

pub mod access;
pub mod archive;
pub mod debian;
pub mod ext4;
pub mod initramfs;
pub mod kernel;
mod lines;
pub mod pack;
mod partial;
pub mod source;
mod sparse;
pub mod store;
pub mod tools;
mod unpack;
