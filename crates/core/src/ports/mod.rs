//! The traits behind which the kernel, QEMU and the file system live.
//!
//! Real implementations are in the adapter crates, fakes in `testing/`; both pass the same conformance tests.

mod clock;
mod dataset;
mod disk_view;
mod disks;
pub mod host;
pub mod link;
pub mod network;
pub mod packages;
mod policy;
pub mod records;
mod rootfs;
mod zpool_error;

pub use clock::Clock;
pub use dataset::{Dataset, is_dataset_component};
pub use disk_view::{DiskView, Extent, Origin};
pub use disks::{
    DiskCopy, DiskError, DiskSource, DiskUsage, Disks, Freezing, StorageStatus, is_partial_name, partial_name,
};
pub use policy::{AllowAll, CommandPolicy};
pub use rootfs::{EntryKind, RootfsEntry, RootfsSink, Timestamp};
pub use zpool_error::ZpoolError;
