//! What agentiso knows about its workspaces, snapshots, disks and memories, about the clients that use them and
//! about what was done, in one SQLite file.
//!
//! Several processes use the file at once. [`Meta::write`] runs any number of changes as one transaction: all
//! of them happen or none. [`Meta::read`] sees one moment. Every question that can be asked of [`Read`] can be
//! asked of [`Tx`] too.

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
pub use operations::{Operation, OperationId};
pub use owner::Owner;
pub use pool::PoolMachine;
