//! What agentiso knows about its workspaces, snapshots, disks and memories, in one SQLite file.
//!
//! Several processes use the file at once. [`Meta::write`] runs any number of changes as one transaction: all
//! of them happen or none. [`Meta::read`] sees one moment. Every question that can be asked of [`Read`] can be
//! asked of [`Tx`] too.

mod database;
mod disks;
mod error;
mod memories;
mod operations;
mod owner;
mod pool;
mod schema;
mod snapshots;
mod stored;
mod verify;
mod workspaces;

pub use database::{Meta, Read, Tx};
pub use disks::{Disk, DiskUsers};
pub use error::MetaError;
pub use memories::Memory;
pub use operations::{Operation, OperationId};
pub use owner::Owner;
pub use pool::PoolMachine;
pub use snapshots::Snapshot;
pub use workspaces::{Lineage, Workspace, WorkspaceState};
