//! The guest kernel: found, unpacked and made ready to boot.

mod apt;
mod bzimage;
mod deb;
mod depmod;
mod elf;
mod error;
mod find;
mod prepare;
mod record;

pub use bzimage::{BzImageError, unpack_vmlinux, version_of_bzimage};
pub use deb::{DebError, ar_members};
pub use elf::{ElfError, modinfo_depends, pvh_entry};
pub use error::KernelError;
pub use find::{KernelQuery, find, prepared};
pub use record::{Boot, Kernel, KernelSource};
