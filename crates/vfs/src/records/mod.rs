//! Queries that several operations need.

mod annotation_sets;
mod audit_rows;
mod checkpoint_rows;
mod lineage_rows;
mod revision_rows;
mod state_rows;
mod vault_rows;

pub(crate) use audit_rows::Entry;
pub(crate) use checkpoint_rows::CheckpointRow;
pub(crate) use lineage_rows::Segment;
pub(crate) use revision_rows::RevisionRow;
pub(crate) use state_rows::Resolved;
pub(crate) use vault_rows::{ParentRow, VaultRow};
