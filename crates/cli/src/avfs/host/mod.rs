//! Between vaults and the host.

mod enter;
mod export;
mod import;
mod mount;
mod serve_mount;
mod unmount;

pub use enter::{Enter, EnteredVault, enter};
pub use export::{Export, ExportedFiles, export};
pub use import::{Import, ImportedFiles, import};
pub use mount::{Mount, MountList, MountShown, mount};
pub use serve_mount::{ServeMount, serve_mount};
pub use unmount::{Unmount, Unmounted, unmount};
