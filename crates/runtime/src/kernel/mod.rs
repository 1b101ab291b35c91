//! The guest kernel: choosing it, pairing it with an initramfs, building and testing one.

mod build;
mod choose;
mod prepare;
mod prove;

pub use build::KernelBuild;
