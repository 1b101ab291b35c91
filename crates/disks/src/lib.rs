//! Copy-on-write disks behind [`agentiso_core::ports::Disks`].

mod choose;
mod fiemap;
mod partial;
mod qcow2;
mod reflink;
mod sparse;

pub use choose::{Choice, Wanted, choose};
pub use qcow2::Qcow2Layers;
pub use reflink::Reflinks;
