//! Which verb of `agentiso workspace` does what.

use agentiso_config::paths::Paths;
use agentiso_core::Failure;

use super::{export, import};
use crate::args::WorkspaceVerb;
use crate::output::Output;

/// Performs a verb of `agentiso workspace`.
pub async fn workspace(here: &Paths, verb: WorkspaceVerb, output: Output) -> Result<u8, Failure> {
    match verb {
        WorkspaceVerb::Export { workspace, file } => export(here, workspace, &file, output).await,
        WorkspaceVerb::Import { file, name } => import(here, &file, name, output).await,
    }
}
