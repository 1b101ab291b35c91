//! qcow2 layers: work on every file system.
//!
//! Only files that this crate created, and that QEMU wrote to, are supported: version 3, clusters of 64 KiB, no
//! compression, no encryption. Everything else is refused.

mod backend;
mod chain;
mod collapse;
mod header;
mod layer;
mod layout;
mod writer;

pub use backend::Qcow2Layers;
