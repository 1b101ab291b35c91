//! Granting workspaces to sessions, and listing sessions.

use agentiso_core::action::{SessionBrief, SessionList, SessionListed, WorkspaceGrant, WorkspaceGranted};
use agentiso_core::ports::records::Session;
use agentiso_core::{Code, Failure};

use crate::act::Context;
use crate::views::shown;
use crate::{Access, Caller, Engine, Perform};

/// The shortest prefix of a session id that the operator may give.
const SHORTEST: usize = 4;

impl Perform for WorkspaceGrant {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceGranted, Failure> {
        let (workspace, engine) = (context.workspace()?, &context.engine);
        let session = engine.session_called(&self.session_id, &context.caller).await?;
        engine.grant(workspace, session.id).await?;
        Ok(WorkspaceGranted {
            workspace_id: workspace.id.to_string(),
            name: workspace.name.to_string(),
            session_id: session.id.to_string(),
            client: session.client,
        })
    }

    fn changed(outcome: &WorkspaceGranted) -> Option<String> {
        Some(format!("given to session {}", outcome.session_id))
    }
}

impl Perform for SessionList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<SessionListed, Failure> {
        let (engine, caller) = (&context.engine, &context.caller);
        let mut sessions = engine.records.sessions().await?;
        sessions.retain(|session| caller.is_operator() || caller.session == Some(session.id));
        let mut briefs = Vec::with_capacity(sessions.len());
        for session in &sessions {
            briefs.push(engine.session_brief(session).await?);
        }
        Ok(SessionListed { count: briefs.len(), sessions: briefs })
    }
}

impl Engine {
    /// A session by its id. Only the operator may give a prefix, so that sessions do not learn of each other.
    pub(in crate::actions) async fn session_called(
        &self,
        asked: &str,
        caller: &Caller,
    ) -> Result<Session, Failure> {
        let sessions = self.records.sessions().await?;
        let is_meant = |session: &Session| {
            let id = session.id.to_string();
            id == asked || (caller.is_operator() && asked.len() >= SHORTEST && id.starts_with(asked))
        };
        let mut meant = sessions.into_iter().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(session), None) => Ok(session),
            (None, _) => {
                let asked: String = asked.chars().take(64).collect();
                Err(Failure::new(Code::SessionNotFound, format!("no session has the id {asked:?}"))
                    .with_remedy(
                        "session_list shows the user all of them; server_status tells a session its own",
                    ))
            }
            (Some(_), Some(_)) => {
                Err(Failure::new(Code::InvalidArgument, format!("several session ids begin with {asked:?}"))
                    .with_remedy("give more characters of the id"))
            }
        }
    }

    async fn session_brief(&self, session: &Session) -> Result<SessionBrief, Failure> {
        let usage = self.records.usage(Some(session.id)).await?;
        let last_active = self.sessions.last(session.id).unwrap_or(session.last_active);
        Ok(SessionBrief {
            session_id: session.id.to_string(),
            client: session.client.clone(),
            created_at: shown(self.clock.on_the_wall(session.created)),
            last_active_at: shown(self.clock.on_the_wall(last_active)),
            connected: self.sessions.is_present(session.id),
            workspaces: usage.workspaces,
        })
    }
}
