//! The guest kernel: found, unpacked and made ready to boot.

mod apt;
pub mod build;
mod bzimage;
mod choice;
mod deb;
mod depmod;
mod elf;
mod error;
mod find;
mod info;
mod prepare;
mod record;
mod version;

pub use bzimage::{BzImageError, unpack_vmlinux, version_of_bzimage};
pub use choice::{use_built, use_packaged};
pub use deb::{DebError, ar_members};
pub use elf::{ElfError, modinfo_depends, pvh_entry, strip};
pub use error::KernelError;
pub use find::{KernelQuery, all, current, find, find_packaged, prepared};
pub use info::{KernelInfo, KernelKind, Kernels, list};
pub use record::{Boot, Kernel, KernelSource};
