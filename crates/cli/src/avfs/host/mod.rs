//! Between vaults and the host.

mod export;
mod import;

pub use export::{Export, ExportedFiles, export};
pub use import::{Import, ImportedFiles, import};
