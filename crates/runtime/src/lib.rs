//! Wires the real adapters together: the only crate that knows them all.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod agent;
pub mod check;
mod clock;
mod devices;
pub mod diff;
mod disk_store;
mod disk_tree;
mod fill;
pub mod guest;
mod hold;
mod host;
mod image_export;
mod image_ops;
mod init;
mod installation;
mod kernel;
mod machine_dir;
mod own_disks;
mod pool;
mod reach;
mod reserve;
mod start;
pub mod workspaces;

pub use agent::AGENT;
pub use agentiso_core::ports::host::ImageOrigin;
pub use agentiso_images::store::{Image, ImageMeta, OciDefaults};
pub use agentiso_vmm::qemu::process_end;
pub use agentiso_vmm::{Accel, Machine, VmError};
pub use clock::BootClock;
pub use image_export::ArchiveFormat;
pub use image_ops::{default_image_name, recipes};
pub use installation::Installation;
pub use kernel::{KernelBuild, KernelInfo, KernelKind, Kernels};
pub use machine_dir::{MachineDir, sweep};
pub use pool::{PoolRequest, use_pool};
pub use start::{BareRestore, Running, StartRequest, Tier};
