//! Copy-on-write disks behind [`agentiso_core::ports::Disks`].

mod bounds;
mod choose;
mod fiemap;
mod partial;
mod qcow2;
mod reflink;
mod sparse;
mod zfs;

pub use choose::{Choice, Wanted, choose};
pub use qcow2::Qcow2Layers;
pub use reflink::Reflinks;
pub use zfs::{NewZpool, PreparedZpool, Zvols, prepare};
