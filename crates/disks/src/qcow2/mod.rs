//! qcow2 layers: works on every file system.
//!
//! Only what this crate and QEMU write into its files is understood: version 3, clusters of 64 KiB, nothing
//! compressed or encrypted. Everything else is refused.

mod backend;
mod chain;
mod collapse;
mod header;
mod layer;
mod layout;
mod writer;

pub use backend::Qcow2Layers;
