//! The checkpoint before a command.

use agentiso_core::Failure;
use agentiso_policy::command::{Action, Decision};
use agentiso_vfs::{CheckpointKind, SaveCheckpoint, Vaults};

use super::target::Workspace;
use crate::envelope::CheckpointMode;
use crate::request::Run;

/// Takes a checkpoint, if one is due. A command that cannot change the vault needs none.
pub fn take(
    vaults: &Vaults,
    run: &Run,
    decision: &Decision,
    workspace: &Workspace,
) -> Result<Option<String>, Failure> {
    let is_due = match run.checkpoint {
        CheckpointMode::Always => true,
        CheckpointMode::Never => false,
        CheckpointMode::Auto => !run.readonly && decision.action != Action::Allow,
    };
    if !is_due {
        return Ok(None);
    }
    let description: String = format!("before {}", run.line()).chars().take(200).collect();
    let request = SaveCheckpoint {
        description: Some(description),
        kind: CheckpointKind::Auto,
        ..SaveCheckpoint::default()
    };
    Ok(Some(vaults.save_checkpoint(&workspace.vault.id.to_string(), &request)?.name))
}
