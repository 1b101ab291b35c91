//! Copy-on-write disks behind [`agentiso_core::ports::Disks`].

mod qcow2;

pub use qcow2::Qcow2Layers;
