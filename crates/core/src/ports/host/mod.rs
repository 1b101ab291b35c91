//! The host port: where workspaces live.
//!
//! ```text
//!            create                 stop, machine ended
//!   nothing ────────► running ─────────────────────────► stopped
//!      ▲               │ ▲ │  ▲                            │ │
//!      │ remove        │ │ └──┘ snapshot, restore, fork    │ │
//!      └───────────────┘ └──────────── start ──────────────┘ │
//!      └───────────────────────── remove ────────────────────┘
//! ```
//!
//! A host keeps the records of its workspaces and snapshots; it does not know who may use them.

mod changes;
mod images;
mod outcomes;
mod requests;
mod secrets;
mod views;
mod workspace_host;

pub use changes::{Aspect, Change, ChangeKind, Changes, EntryInfo, EntryKind, TextDiff, Time, Totals};
pub use images::{
    ArchivedWorkspace, ImageHost, ImageOrigin, ImageRequest, ImageView, OciDefaults, OpenArchive, RecipeView,
};
pub use outcomes::{
    Exported, ForkOutcome, Forked, Logs, MachineEnded, MemoryWritten, PoolState, Restored, Snapshotted,
};
pub use requests::{
    CompareRequest, CreateRequest, ForkRequest, ForkSource, Point, RemoveRequest, SnapshotRequest,
};
pub use secrets::{NewSecret, SecretHost, SecretView};
pub use views::{ForkedFrom, SnapshotView, WorkspaceView};
pub use workspace_host::WorkspaceHost;
