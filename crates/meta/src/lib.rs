//! What agentiso knows about its workspaces, snapshots, disks and memories, about the clients that use them and
//! about what was done, in one SQLite file.
//!
//! Several processes use the file at once. [`Meta::write`] runs any number of changes as one transaction: all
//! of them happen or none. [`Meta::read`] sees one moment. Every question that can be asked of [`Read`] can be
//! asked of [`Tx`] too.

mod database;
mod disks;
mod error;
mod forwards;
mod id_like;
mod idempotency;
mod identity;
mod memories;
mod operations;
mod owner;
mod pool;
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

pub use database::{Gate, Meta, Read, Tx};
pub use disks::{Disk, DiskUsers};
pub use error::MetaError;
pub use forwards::Forward;
pub use idempotency::{Claim, MAX_KEY};
pub use identity::{Identity, StaleRecord};
pub use memories::Memory;
pub use operations::{Operation, OperationId};
pub use owner::Owner;
pub use pool::PoolMachine;
pub use sessions::{MAX_CLIENT, Session, SessionKind};
pub use settings::{NextSize, Settings};
pub use snapshots::Snapshot;
pub use timeline::{By, Event, EventFilter, MAX_DETAIL, NewEvent};
pub use usage::Usage;
pub use variables::Variable;
pub use workspaces::{Lineage, Workspace, WorkspaceState};
