//! The state of an installation in one SQLite file: workspaces, snapshots, disks, memory images, clients and the
//! timeline.
//!
//! Several processes may use the file concurrently. [`Meta::write`] runs any number of changes as one transaction.
//! [`Meta::read`] sees a consistent view. All queries of [`Read`] are also available on [`Tx`].
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod approvals;
mod connections;
mod database;
mod disks;
mod error;
mod forwards;
mod id_like;
mod idempotency;
mod identity;
mod log;
mod memories;
mod network;
mod one_shots;
mod operations;
mod owner;
mod pool;
mod records;
mod schema;
mod sessions;
mod settings;
mod snapshots;
mod stored;
mod timeline;
mod usage;
mod variables;
mod verify;
mod workspaces;
mod writer;

pub use agentiso_core::ports::records::{
    By, Claim, Event, EventFilter, Forward, Lineage, MAX_CLIENT, MAX_DETAIL, MAX_KEY, NewEvent, NextSize,
    Session, SessionKind, Settings, Snapshot, Usage, Variable, Workspace, WorkspaceState,
};
pub use database::{Gate, Meta, Read, Tx};
pub use disks::{Disk, DiskUsers};
pub use error::MetaError;
pub use identity::{Identity, StaleRecord};
pub use memories::Memory;
pub use network::RouterPosition;
pub use operations::{Operation, OperationId};
pub use owner::Owner;
pub use pool::PoolMachine;
