//! Lists, details, logs, the timeline, and the state of the daemon.

use agentiso_core::Failure;
use agentiso_core::action::forms::{MAX_EVENTS, MAX_LOG_LINES};
use agentiso_core::action::{
    LogType, ServerState, ServerStatus, Timeline, TimelineEvent, TimelineShown, WorkspaceDetails,
    WorkspaceInfo, WorkspaceList, WorkspaceListed, WorkspaceLogged, WorkspaceLogs, WorkspaceStatistics,
    WorkspaceStats, reads,
};
use agentiso_core::ports::records::{By, EventFilter};

use crate::act::Context;
use crate::quota::quota;
use crate::views::shown;
use crate::{Access, Perform};

const LOG_LINES: u32 = 100;
const EVENTS: u32 = 50;

impl Perform for WorkspaceList {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceListed, Failure> {
        let mut workspaces = context.engine.briefs(Some(&context.caller)).await?;
        workspaces.retain(|workspace| {
            self.state_filter.is_none_or(|state| workspace.state == state)
                && (!self.owned || workspace.owned)
                && self.labels.iter().all(|(key, value)| workspace.labels.get(key) == Some(value))
        });
        Ok(WorkspaceListed { count: workspaces.len(), workspaces })
    }
}

impl Perform for WorkspaceInfo {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceDetails, Failure> {
        context.engine.details_of(context.workspace()?, &context.caller).await
    }
}

impl Perform for WorkspaceLogs {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceLogged, Failure> {
        let lines = self.max_lines.unwrap_or(LOG_LINES).min(MAX_LOG_LINES) as usize;
        let (console, stderr) = match self.log_type.unwrap_or(LogType::All) {
            LogType::All => (true, true),
            LogType::Console => (true, false),
            LogType::Stderr => (false, true),
        };
        let logs = context.engine.host.logs(context.workspace()?.id, lines).await?;
        Ok(WorkspaceLogged { console: console.then_some(logs.console), stderr: stderr.then_some(logs.qemu) })
    }
}

impl Perform for Timeline {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<TimelineShown, Failure> {
        let engine = &context.engine;
        // Calls that have ended are to be included.
        engine.timeline.flush().await;
        let workspace = context.past();
        let limit = self.limit.unwrap_or(EVENTS).clamp(1, MAX_EVENTS);
        // A session sees what it did itself and what was done to its workspaces. Where sessions are isolated, it does not
        // see what other sessions did to its workspaces before.
        let by = match context.caller.session {
            None => By::Anyone,
            Some(session) if workspace.is_none() => By::Session(session),
            Some(session) if engine.isolates(&context.caller) => By::SessionOrUser(session),
            Some(_) => By::Anyone,
        };
        let without = if self.changes_only { reads() } else { &[] };
        let filter = EventFilter { workspace, before: self.before, by, without, limit };
        let events = engine.records.events(filter).await?;
        let events = events.into_iter().map(|event| TimelineEvent {
            id: event.id,
            at: shown(event.done.at),
            workspace_id: event.done.workspace.map(|id| id.to_string()),
            workspace_name: event.done.workspace_name.map(|name| name.to_string()),
            client: event.done.client,
            action: event.done.action,
            detail: event.done.detail,
            duration_ms: event.done.duration.as_secs_f64() * 1000.0,
            outcome: event.done.outcome,
            changed: event.done.changed,
        });
        Ok(TimelineShown { events: events.collect() })
    }
}

impl Perform for WorkspaceStats {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<WorkspaceStatistics, Failure> {
        context.engine.statistics(&context.caller).await
    }
}

impl Perform for ServerStatus {
    const ACCESS: Access = Access::Looks;

    async fn perform(self, context: &Context) -> Result<ServerState, Failure> {
        let engine = &context.engine;
        let usage = engine.records.usage(context.caller.session).await?;
        let pool = engine.host.pool_state().await?;
        Ok(ServerState {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_secs: engine.uptime().as_secs(),
            home: engine.settings.home.display().to_string(),
            config: engine.settings.config_file.display().to_string(),
            workspaces: engine.states_seen_by(Some(&context.caller)).await?,
            pool: pool.ready,
            pool_wanted: pool.wanted,
            pool_why: pool.why,
            session_id: context.caller.session.map(|id| id.to_string()),
            usage: agentiso_core::action::QuotaUse {
                workspaces: usage.workspaces,
                memory_mb: usage.memory_mb,
                disk_gb: usage.disk_gb,
                snapshots: usage.snapshots,
            },
            quota: quota(engine),
        })
    }
}
