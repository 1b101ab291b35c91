//! The initramfs: the guest agent as `/init`, and the modules it must load before it can reach anything.

mod build;
mod cpio;
mod modules;

pub use build::{InitramfsError, MODULES_LIST, VERSION, build};
pub use modules::{Module, ModuleIndex, module_name, parse_modules_builtin, parse_modules_dep};
