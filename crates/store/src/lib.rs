//! Content-addressed blobs and immutable trees.
//!
//! A [`Store`] is a directory of packs. A tree is named by the hash of its root directory ([`TreeId`]) and never changes;
//! equal directories are the same object, so comparing two trees visits only what differs. There is no daemon: any number
//! of processes read and write at once.
//!
//! ```text
//! begin ──► Session: put objects, import, merge, edit ──► commit ──► Lease ──► the caller records the tree ──► drop
//!             │                                             │          │
//!             │ dropped or killed: the temporary pack       │          └─ keeps the tree until the record exists
//!             │ is garbage, its lock is released            └─ flushed to disk, then published by one rename
//! ```
//!
//! **Durability.** `commit` returns after the pack and its directory were flushed (`fdatasync`, `fsync`), so what was
//! committed survives a power failure. Nothing before that is visible to others.
//!
//! **Garbage collection** ([`collect`]) keeps what is reachable from the roots that the caller gives, from pins and from
//! leases. A caller that reads a root from its own records and then uses it without a lease may lose it only if it also
//! deletes the record meanwhile.
//!
//! **Upkeep.** Each commit adds a pack. [`tidy`] joins small ones; call it after a commit, when nobody waits.
//!
//! **Integrity.** Every object is hashed when it is read. Names are checked when a directory is decoded, so no tree can
//! name a path outside itself.

mod builder;
mod content;
mod diff;
mod edit;
mod error;
mod exchange;
mod export;
mod fsck;
mod gc;
mod id;
mod import;
mod lease;
pub mod limits;
mod locks;
mod merge;
mod node;
mod object;
mod pack;
mod path;
mod pins;
mod session;
mod stats;
mod steps;
mod store;
mod tree;

pub use builder::{Builder, DirectoryIndex};
pub use content::{Piece, pieces, read_content, read_range, store_bytes, store_stream};
pub use diff::{
    Aspect, Change, ChangeKind, ChangeOptions, Changes, Delta, Info, apply, changes, compare, invert,
};
pub use edit::{Edit, edit};
pub use error::StoreError;
pub use exchange::{
    Commit, GitExported, GitImported, TarLimits, TarRead, export_git, import_git, import_git_line, read_tar,
    write_tar,
};
pub use export::{MaterialiseOptions, Materialised, Reuse, Sharing, materialise, remove_abandoned};
pub use fsck::{Affected, Damage, FsckReport, Repaired, check, repair};
pub use gc::{Garbage, GcOptions, GcReport, collect, garbage, tidy};
pub use id::{ObjectId, ObjectKind, TreeId};
pub use import::{
    ImportOptions, ImportReport, Imported, Notice, Reason, StatCache, import_directory, import_layer,
};
pub use lease::{Lease, Root};
pub use merge::{
    Conflict, ConflictKind, MergeOptions, Merged, Sides, TextMerge, TextStyle, merge, merge_text,
};
pub use node::{Content, Entry, File, LinkGroup, Meta, Node, NodeKind, Time};
pub use object::{Attributes, Directory, DirectoryObject, Page, PageRef, Recipe, Segment};
pub use pack::{Footer, IndexEntry, RecordHeader};
pub use path::{TreePath, is_valid_name};
pub use session::Session;
pub use stats::{KindStats, Stats};
pub use steps::{Step, Steps};
pub use store::{Objects, Options, Store};
pub use tree::{Visit, directory, directory_meta, lookup, walk};
