//! The records port: everything that outlives the daemon.
//!
//! One trait per domain. Every method is one transaction: it happens as a whole or not at all, and what it returns was
//! true at one moment. An error never means absence.

mod approvals;
mod forwards;
mod keys;
mod sessions;
mod timeline;
mod variables;
mod workspaces;

pub use approvals::{ApprovalRecords, NewAnswer, Raised};
pub use forwards::{Forward, ForwardRecords};
pub use keys::{Claim, KeyRecords, MAX_KEY};
pub use sessions::{MAX_CLIENT, Session, SessionKind, SessionRecords};
pub use timeline::{
    By, Event, EventEnd, EventFilter, INTERRUPTED, MAX_DETAIL, NewEvent, RUNNING, TimelineRecords,
};
pub use variables::{Variable, VariableRecords, VariablesChange};
pub use workspaces::{
    Lineage, NextSize, Settings, SettingsChange, Snapshot, Usage, Workspace, WorkspaceRecords, WorkspaceState,
};

/// All records.
pub trait Records:
    WorkspaceRecords
    + SessionRecords
    + VariableRecords
    + ForwardRecords
    + KeyRecords
    + TimelineRecords
    + ApprovalRecords
{
}

impl<T> Records for T where
    T: WorkspaceRecords
        + SessionRecords
        + VariableRecords
        + ForwardRecords
        + KeyRecords
        + TimelineRecords
        + ApprovalRecords
{
}
