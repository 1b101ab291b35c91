//! Import of a directory of the host.
//!
//! ```text
//! scan: every directory, by openat2 beneath the root ──► read: files in parallel, each checked for change ──► build
//!         │ symbolic links are never followed               │ changed while it was read: read again, then reported
//!         └ vanished meanwhile: reported                    └ known by inode, size and times: not read
//! ```

mod attributes;
mod beneath;
mod cache;
mod directory;
mod layer;
mod links;
mod read;
mod report;
mod scan;

pub use cache::StatCache;
pub use directory::{ImportOptions, Imported, import_directory};
pub use layer::import_layer;
pub use report::{ImportReport, Notice, Reason};

pub(crate) use attributes::is_kept as is_kept_attribute;
pub(crate) use beneath::open_beneath;
pub(crate) use links::group as link_group;
