//! How a workspace gets another owner.

use std::time::Duration;

use agentiso_core::ports::records::Workspace;
use agentiso_core::{Code, Failure, SessionId, WorkspaceId};

use crate::Engine;
use crate::quota::Asked;

impl Engine {
    /// Makes a session the owner of a workspace that is nobody's, or whose owner has been idle for `idle`.
    pub(crate) async fn adopt(
        &self,
        session: SessionId,
        workspace: WorkspaceId,
        idle: Duration,
    ) -> Result<(), Failure> {
        let _one_at_a_time = self.quota.turn().await;
        let found = self.records.workspace(workspace).await?;
        let owner = self.records.owner_of(workspace).await?;
        if owner.as_ref().is_some_and(|owner| owner.id == session) {
            return Ok(());
        }
        if let Some(owner) = owner {
            if let Some(reason) = self.sessions.in_use(owner.id) {
                let name = found.name.as_str();
                let message = format!("the workspace {name:?} belongs to a session {reason}");
                return Err(Failure::new(Code::NotOwner, message)
                    .with_remedy("use another workspace, or try again when its client has gone"));
            }
            let last = self.sessions.last(owner.id).unwrap_or(owner.last_active);
            let idle_for = self.clock.now().duration_since(last);
            if Duration::try_from(idle_for).unwrap_or_default() < idle {
                let message = format!(
                    "the workspace {:?} belongs to a session that was active {} s ago",
                    found.name.as_str(),
                    idle_for.as_secs().max(0)
                );
                return Err(Failure::new(Code::NotOwner, message).with_remedy(format!(
                    "try again with force when it has been idle for {} s",
                    self.settings.adopt_idle_secs
                )));
            }
        }
        self.quota.require_own(self, session, Asked::of(&found.resources)).await?;
        self.hand_over(workspace, session).await
    }

    /// Gives a workspace to a session, whoever has it now.
    pub(crate) async fn grant(&self, workspace: &Workspace, session: SessionId) -> Result<(), Failure> {
        let _one_at_a_time = self.quota.turn().await;
        if self.records.settings(workspace.id).await?.owner == Some(session) {
            return Ok(());
        }
        self.quota.require_own(self, session, Asked::of(&workspace.resources)).await?;
        self.hand_over(workspace.id, session).await
    }

    /// Makes a session the owner. What sessions before it had set as variables is not its business.
    async fn hand_over(&self, workspace: WorkspaceId, session: SessionId) -> Result<(), Failure> {
        let kept = self.records.set_owner(workspace, session).await?;
        self.rooms.of(workspace).change_owner(&kept);
        Ok(())
    }
}
