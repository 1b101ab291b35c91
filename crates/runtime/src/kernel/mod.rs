//! The guest kernel: which one is used, and how one of our own is built and proved.

mod build;
mod choose;
mod prepare;
mod prove;

pub use build::KernelBuild;
pub use choose::{KernelInfo, KernelKind, Kernels};
