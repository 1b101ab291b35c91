//! Starting, stopping, renaming and growing workspaces.

use std::time::{Duration, Instant};

use agentiso_core::Failure;
use agentiso_core::action::{
    State, WorkspaceGrow, WorkspaceRename, WorkspaceResume, WorkspaceStart, WorkspaceStateNow, WorkspaceStop,
};
use agentiso_core::admission::Amounts;
use agentiso_core::ports::records::{Settings, Workspace};

use crate::act::Context;
use crate::env::MachineEnv;
use crate::events::EventKind;
use crate::views::took_ms;
use crate::{Access, Perform};

/// Starting and resuming are the same operation: a suspended workspace is resumed either way.
macro_rules! starts {
    ($($action:ty),*) => {$(
        impl Perform for $action {
            const ACCESS: Access = Access::Changes;

            async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
                context.start().await
            }

            fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
                Some(outcome.state.to_string())
            }
        }
    )*};
}

starts!(WorkspaceStart, WorkspaceResume);

impl Context {
    /// Starts the workspace, or resumes it if it is suspended. The caller holds the lock.
    pub(crate) async fn start(&self) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (self.workspace()?, &self.engine, Instant::now());
        let before = engine.host.info(workspace.id).await?;
        if before.state == State::Running {
            // A running workspace is not suspended, even if the call that resumed it failed.
            engine.forget_last_moment(workspace.id).await?;
            return Ok(state_now(
                workspace,
                State::Running,
                began,
                Some("it was running already".to_owned()),
            ));
        }
        if engine.records.settings(workspace.id).await?.suspended.is_some() {
            return self.resume().await;
        }
        engine.apply_next_size(workspace).await?;
        let view = engine.host.start(workspace.id, &self.progress).await?;
        engine.change_settings(workspace.id, |settings| settings.stay_stopped = false).await?;
        self.complete_start(MachineEnv::Empty).await?;
        Ok(state_now(workspace, view.state, began, None))
    }

    /// The last steps of every start: sets the variables, watches the machine and tells clients.
    pub(super) async fn complete_start(&self, env: MachineEnv) -> Result<(), Failure> {
        let (workspace, engine) = (self.workspace()?, &self.engine);
        engine.apply_env(workspace.id, env).await?;
        engine.watch(workspace.id).await;
        engine.events.tell(EventKind::Started, workspace.id, workspace.name.as_str(), None).await;
        Ok(())
    }
}

impl Perform for WorkspaceStop {
    const ACCESS: Access = Access::Changes;
    const ENDS_MACHINE: Option<&'static str> = Some("was stopped");

    fn kills(&self) -> bool {
        self.force
    }

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (context.workspace()?, &context.engine, Instant::now());
        let running = if self.force {
            // Its QEMU may have been killed for this call.
            engine.records.workspace(workspace.id).await?.machine().is_some()
        } else {
            engine.host.info(workspace.id).await?.state == State::Running
        };
        let change = move |settings: &mut Settings| {
            settings.stay_stopped = true;
            // A workspace that runs is not suspended: its next start must not take it back.
            settings.suspended = settings.suspended.filter(|_| !running);
        };
        engine.change_settings(workspace.id, change).await?;
        if !running {
            let suspended = engine.records.settings(workspace.id).await?.suspended.is_some();
            if suspended && self.force {
                engine.forget_last_moment(workspace.id).await?;
                engine.events.tell(EventKind::Stopped, workspace.id, workspace.name.as_str(), None).await;
                let note = "its saved memory was discarded; its disk is as it was when it was suspended";
                return Ok(state_now(workspace, State::Stopped, began, Some(note.to_owned())));
            }
            let state = if suspended { State::Suspended } else { State::Stopped };
            return Ok(state_now(workspace, state, began, Some("it was not running".to_owned())));
        }
        let limit = self.timeout_secs.map(Duration::from_secs);
        let clean = engine.host.stop(workspace.id, self.force, limit).await?;
        engine.events.tell(EventKind::Stopped, workspace.id, workspace.name.as_str(), None).await;
        let note = (!clean).then(|| "it was switched off, not powered off".to_owned());
        Ok(state_now(workspace, State::Stopped, began, note))
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        Some(outcome.state.to_string())
    }
}

impl Perform for WorkspaceRename {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (context.workspace()?, &context.engine, Instant::now());
        let name = self.new_name.parse()?;
        let view = engine.host.rename(workspace.id, &name).await?;
        engine
            .events
            .tell(EventKind::Renamed, workspace.id, name.as_str(), Some(workspace.name.to_string()))
            .await;
        let note = Some(format!("it was called {}", workspace.name));
        let renamed = Workspace { name, ..workspace.clone() };
        Ok(state_now(&renamed, view.state, began, note))
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        Some(format!("is now called {}", outcome.name))
    }
}

impl Perform for WorkspaceGrow {
    const ACCESS: Access = Access::Changes;

    async fn perform(self, context: &Context) -> Result<WorkspaceStateNow, Failure> {
        let (workspace, engine, began) = (context.workspace()?, &context.engine, Instant::now());
        let before = workspace.resources.disk_gb;
        let more = Amounts::disk(self.disk_gb.saturating_sub(before));
        let _reserved = engine.quota.reserve(engine, context.caller.session, more).await?;
        let view = engine.host.grow(workspace.id, self.disk_gb).await?;
        let note = format!("its disk has {} GiB and had {before}", view.resources.disk_gb);
        Ok(state_now(workspace, view.state, began, Some(note)))
    }

    fn changed(outcome: &WorkspaceStateNow) -> Option<String> {
        outcome.note.clone()
    }
}

pub(super) fn state_now(
    workspace: &Workspace,
    state: State,
    began: Instant,
    note: Option<String>,
) -> WorkspaceStateNow {
    WorkspaceStateNow {
        workspace_id: workspace.id.to_string(),
        name: workspace.name.to_string(),
        state,
        ip: workspace.network.address.map(|address| address.to_string()),
        took_ms: took_ms(began),
        note,
    }
}
