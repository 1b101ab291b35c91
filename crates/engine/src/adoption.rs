//! Changes of ownership.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::admission::{Amounts, OwnerFacts, Takeover, TakeoverDenial, decide_takeover};
use agentiso_core::ports::records::{Session, Workspace};
use agentiso_core::{Code, Failure, SessionId, WorkspaceId};
use tokio::sync::OwnedMutexGuard;

use crate::Engine;

impl Engine {
    /// Makes a session the owner of a workspace that has no owner, or whose owner has been idle for `idle`.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        session: SessionId,
        workspace: WorkspaceId,
        idle: Duration,
    ) -> Result<(), Failure> {
        let lock = self.quota.lock().await;
        let found = self.records.workspace(workspace).await?;
        let owner = self.records.owner_of(workspace).await?;
        let owner = owner.map(|owner| self.owner_facts(&owner));
        match decide_takeover(session, owner.as_ref(), idle) {
            Takeover::Owned => return Ok(()),
            Takeover::Allow => {}
            Takeover::Deny(denial) => return Err(self.kept_by_owner(&found, denial)),
        }
        self.quota.require_own(self, session, Amounts::of(&found.resources)).await?;
        self.hand_over(workspace, session, lock).await
    }

    fn owner_facts(&self, owner: &Session) -> OwnerFacts {
        let last = self.sessions.last(owner.id).unwrap_or(owner.last_active);
        OwnerFacts {
            id: owner.id,
            connected: self.sessions.is_present(owner.id),
            calling: self.sessions.has_call(owner.id),
            idle: Duration::try_from(self.clock.now().duration_since(last)).unwrap_or_default(),
        }
    }

    fn kept_by_owner(&self, workspace: &Workspace, denial: TakeoverDenial) -> Failure {
        let needed = self.settings.adopt_idle_secs;
        let gone = "use another workspace, or try again when its client has gone".to_owned();
        let (reason, remedy) = match denial {
            TakeoverDenial::Connected => ("whose client is connected".to_owned(), gone),
            TakeoverDenial::Calling => ("that has a call running".to_owned(), gone),
            TakeoverDenial::Active(idle) => (
                format!("that was active {} s ago", idle.as_secs()),
                format!("try again with force when it has been idle for {needed} s"),
            ),
        };
        let message = format!("the workspace {:?} belongs to a session {reason}", workspace.name.as_str());
        Failure::new(Code::NotOwner, message).with_remedy(remedy)
    }

    /// Gives a workspace to a session, even if another session owns it.
    pub(crate) async fn grant(
        self: &Arc<Self>,
        workspace: &Workspace,
        session: SessionId,
    ) -> Result<(), Failure> {
        let lock = self.quota.lock().await;
        if self.records.settings(workspace.id).await?.owner == Some(session) {
            return Ok(());
        }
        self.quota.require_own(self, session, Amounts::of(&workspace.resources)).await?;
        self.hand_over(workspace.id, session, lock).await
    }

    /// Makes a session the owner. Variables that earlier sessions set are forgotten. In its own task: a caller that
    /// disconnects must not leave the records changed and the former owner's calls running.
    async fn hand_over(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        session: SessionId,
        lock: OwnedMutexGuard<()>,
    ) -> Result<(), Failure> {
        let engine = Arc::clone(self);
        let handing = tokio::spawn(async move {
            let _lock = lock;
            let kept = engine.records.set_owner(workspace, session).await?;
            engine.live.of(workspace).change_owner(&kept);
            Ok(())
        });
        handing.await.map_err(|error| Failure::new(Code::Internal, error.to_string()))?
    }
}
