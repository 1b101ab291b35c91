//! Vaults: named lines of immutable trees, with forks, checkpoints, history, merge and search.
//!
//! [`Vaults`] is a directory with records in SQLite and a store of trees. There is no daemon: any number of processes use
//! it at once. A vault is a row that names its working tree, so a fork, a checkpoint and a restore are changes of rows,
//! whatever the size of the tree.
//!
//! ```text
//! read the row (tree, revision) ──► Session: make the new tree ──► commit to the store: a lease keeps it
//!        ▲                                                            │
//!        │ somebody else was faster: again, from what is there now    ▼
//!        └──────────────────────────────────────── transaction: is the revision the same? ──► row, journal, audit
//! ```
//!
//! **Nothing is lost.** Every change of a working tree is a row of the journal with the trees before and after it. The
//! journal is the history of every file, the undo log and, with checkpoints, what garbage collection keeps. What a kill
//! interrupts has not happened. After a power failure the records are consistent, but may lack the last changes.
//!
//! **Forks** share everything with their parents until they change it, and see the history and the checkpoints that the
//! parent had when they were made. A vault that is removed keeps its history while forks need it.
//!
//! **Runs.** A command works in a directory that is laid out from a vault's tree ([`Vaults::begin_use`]). What it changed
//! is merged into the vault when it ends, so several commands may work on one vault at once. Of a conflict, the vault
//! keeps what it has, and the tree of the run becomes a checkpoint.

mod annotations;
mod audit;
mod change;
mod checkpoint;
mod commit;
mod db;
mod diff;
mod error;
mod exchange;
mod files;
mod history;
mod model;
mod name;
mod owner;
mod path;
mod places;
mod records;
mod runs;
mod search;
mod state;
mod turn;
mod upkeep;
mod vault;
mod vaults;

pub use agentiso_store::{
    ChangeOptions, Changes, Conflict, ConflictKind, Content, Lease, NodeKind, Root, Session, Store, Time,
    TreeId, TreePath,
};
pub use annotations::{Annotation, Annotations};
pub use audit::{AuditEntry, AuditPage, AuditQuery};
pub use change::{FileOp, NewContent, Staged};
pub use checkpoint::{Checkpoint, CheckpointKind, Restore, Restored, SaveCheckpoint};
pub use diff::{Endpoint, FileDiff, Hunk, Line, LineKind, MergeReport, MergeVaults, OnConflict, diff_lines};
pub use error::VfsError;
pub use exchange::{ExportDone, ExportRequest, ImportDone, ImportMode, ImportRequest};
pub use files::{FileBytes, FindQuery, Found, GrepMatch, GrepQuery, Grepped, Stat, TreeNode, View};
pub use history::{CheckedOut, PruneKeep, PruneRequest, Pruned, Revision, Undone, Version, VersionRef};
pub use model::{
    Changed, CreateVault, Fork, ForkNames, ForkVault, Lineage, Note, Parent, QuotaStatus, Quotas,
    RemoveOptions, RemovedVault, Retention, Totals, VaultInfo,
};
pub use name::{VaultId, VaultName};
pub use path::parse_path;
pub use runs::{BeginUse, Use, UseRecord, UseReport};
pub use search::{SearchHit, SearchQuery, SearchResults};
pub use state::{State, StateRef};
pub use upkeep::{
    Compacted, FsckRequest, GcDone, GcRequest, LostRow, MaintainRequest, Maintained, VaultFsck, VaultStats,
};
pub use vaults::{Options, Vaults};
