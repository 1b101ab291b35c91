//! Adopting workspaces.

use std::time::Duration;

use agentiso_core::action::{AdoptError, WorkspaceAdopt, WorkspaceAdopted};
use agentiso_core::{Code, Failure};

use crate::act::Context;
use crate::{Access, Perform};

impl Perform for WorkspaceAdopt {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceAdopted, Failure> {
        let engine = &context.engine;
        let Some(session) = context.caller.session else {
            return Err(Failure::new(Code::InvalidArgument, "all workspaces are the user's already")
                .with_remedy("only sessions of agents own workspaces"));
        };
        let idle = if self.force {
            Duration::from_secs(engine.settings.adopt_idle_secs.into())
        } else {
            Duration::MAX
        };
        let mut adopted =
            WorkspaceAdopted { adopted_count: 0, adopted: Vec::new(), error_count: 0, errors: Vec::new() };
        if let Some(workspace) = context.claimed() {
            engine.adopt(session, workspace.id, idle).await?;
            adopted.adopted.push(engine.brief_of(workspace, &context.caller).await?);
        } else {
            let settings = engine.records.all_settings().await?;
            let isolates = engine.isolates(&context.caller);
            let wanted = settings.iter().filter(|(_, settings)| match settings.owner {
                _ if isolates => false,
                None => true,
                Some(owner) => self.force && owner != session,
            });
            for (&id, _) in wanted {
                match engine.adopt(session, id, idle).await {
                    Ok(()) => {
                        let workspace = engine.records.workspace(id).await?;
                        adopted.adopted.push(engine.brief_of(&workspace, &context.caller).await?);
                    }
                    Err(failure) => adopted.errors.push(AdoptError {
                        workspace_id: id.to_string(),
                        error: failure.message().to_owned(),
                    }),
                }
            }
        }
        adopted.adopted_count = adopted.adopted.len();
        adopted.error_count = adopted.errors.len();
        Ok(adopted)
    }

    fn changed(outcome: &WorkspaceAdopted) -> Option<String> {
        Some(format!("{} taken over", outcome.adopted_count))
    }
}
