//! Wires the real adapters together: the only crate that knows them all.

mod agent;
pub mod bench;
pub mod check;
pub mod config;
mod devices;
pub mod diff;
mod disk_store;
mod disk_tree;
mod fill;
pub mod guest;
mod hold;
mod image_export;
mod image_ops;
mod init;
mod installation;
mod kernel;
mod machine_dir;
pub mod modes;
mod own_disks;
pub mod paths;
mod pool;
mod reach;
mod reserve;
mod start;
pub mod workspaces;

pub use agent::AGENT;
pub use agentiso_images::store::{Image, ImageMeta, OciDefaults};
pub use agentiso_vmm::qemu::process_end;
pub use agentiso_vmm::{Accel, Machine, VmError};
pub use image_export::ArchiveFormat;
pub use image_ops::{ImageOrigin, recipes};
pub use installation::Installation;
pub use kernel::{KernelBuild, KernelInfo, KernelKind, Kernels};
pub use machine_dir::{MachineDir, sweep};
pub use pool::{PoolRequest, use_pool};
pub use start::{Running, StartRequest, Tier};
