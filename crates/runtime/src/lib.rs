//! Puts the adapters together: disks, images, QEMU and the database. The only crate that depends on all of them.
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
mod host;
mod image_export;
mod image_ops;
mod in_place_disks;
mod init;
mod installation;
mod kernel;
mod machine_dir;
pub mod network;
mod own_disks;
mod pinned;
mod reach;
mod reserve;
mod start;
pub mod workspaces;
mod zpool;

pub use agent::AGENT;
pub use agentiso_core::ports::host::ImageOrigin;
pub use agentiso_images::kernel::{KernelInfo, KernelKind, Kernels};
pub use agentiso_images::store::{Image, ImageMeta, OciDefaults};
pub use agentiso_images::{default_image_name, recipes};
pub use agentiso_vmm::qemu::process_end;
pub use agentiso_vmm::{Accel, Machine, VmError};
pub use clock::BootClock;
pub use host::HostPackages;
pub use image_export::ArchiveFormat;
pub use installation::Installation;
pub use kernel::KernelBuild;
pub use machine_dir::{MachineDir, sweep};
pub use start::{BareRestore, Running, StartRequest, Tier};
pub use zpool::{ZpoolRequest, use_zpool};
