//! Which snapshot verb does what.

use agentiso_config::paths::Paths;
use agentiso_core::Failure;

use super::{create, diff, ls, restore, rm};
use crate::args::SnapshotVerb;
use crate::output::Output;

/// Performs a verb of `agentiso snapshot`.
pub async fn snapshot(here: &Paths, verb: SnapshotVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        SnapshotVerb::Create(flags) => create(here, flags, output).await,
        SnapshotVerb::Ls { workspace, only } => ls(here, workspace, only, output).await,
        SnapshotVerb::Restore(flags) => restore(here, flags, output).await,
        SnapshotVerb::Diff(flags) => diff(here, flags, output).await,
        SnapshotVerb::Rm { workspace, name } => rm(here, workspace, name, output).await,
    }
}
