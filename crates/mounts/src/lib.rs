//! Trees as directories that every program can use, and the way back.
//!
//! ```text
//! tree ──► Layouts: a base laid out once, or a near one with a small layer of differences ──► Base, leased
//!                                                                                              │
//!          WorkDir: an empty writable layer above it ──► overlay in a namespace, direct mount, or FUSE server
//!             │                                            │ commands run
//!             └── ingest: reads the writable layer only ◄──┘ ──► new tree and the exact list of changes
//! ```
//!
//! **Lower layers never change.** A layout is published by one rename, is in a directory that only its owner may enter, and
//! is removed only when nobody has leased it.
//!
//! **Nothing is lost.** A working directory outlives the process that held it. [`WorkDirs::abandoned`] finds those whose
//! process was killed; only their next owner removes them.
//!
//! **Garbage collection.** The trees below working directories are roots: give [`WorkDirs::roots`] to the collection.
//!
//! **Without overlayfs** a working directory is a plain copy of the tree (by reflink where the file system can), and
//! changes are found by comparison. [`Support`] says what is used and why.
//!
//! **Limits.** Files of a lower layer that have several names become separate files when one of them is written: overlayfs
//! keeps such names together only in the layer that is written to. Sockets and devices are not read back.

mod descriptors;
mod enter;
mod error;
mod files;
mod fuse;
mod ingest;
mod layer;
mod layouts;
mod mounts;
mod namespace;
mod overlay;
mod renames;
mod support;
mod workdir;

pub use enter::{Enter, Entered, enter};
pub use error::MountError;
pub use ingest::{IngestOptions, Ingested, Quiesce, Running};
pub use layouts::{Base, Evicted, LayoutInfo, LayoutOptions, Layouts};
pub use mounts::{By, Launcher, MountInfo, MountRequest, MountState, Mounts, serve_mount};
pub use overlay::Overlay;
pub use renames::{RenameStats, RenameSupervisor, install_rename_filter, move_directory, rename_filter};
pub use support::Support;
pub use workdir::{Access, Kind, WorkDir, WorkDirInfo, WorkDirOptions, WorkDirs};
