//! Background work: expired and idle workspaces, disk maintenance, the pool, and old records.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::host::RemoveRequest;
use agentiso_core::ports::records::Workspace;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Code, Failure, WorkspaceId};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::events::EventKind;
use crate::idempotency::KEYS_KEPT;
use crate::live_state::{LiveState, locked};
use crate::record::Record;
use crate::{Caller, Engine, timeline};

/// The time between two checks for expired and idle workspaces.
const EVERY: Duration = Duration::from_secs(5);
/// How many checks there are between two removals of old records.
const PRUNE_EVERY: u64 = 120;
/// How many checks there are between two summaries of what workspaces did on the network.
const SUMMARISE_EVERY: u64 = 12;
/// How long a session that owns nothing is kept.
const SESSIONS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long to wait for the lock of an expired workspace whose machine was killed, before the next workspace is checked.
const LOCK_LIMIT: Duration = Duration::from_secs(2);
/// How long background work may take to stop when the daemon ends.
const STOP_LIMIT: Duration = Duration::from_secs(10);
/// An agent that does not answer within this time counts as busy.
const ANSWER: Duration = Duration::from_secs(5);
/// The client of the daemon's own actions, in the timeline.
pub(crate) const DAEMON: &str = "agentiso";

/// Why a workspace is to be stopped or removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Due {
    Idle,
    Expired,
}

impl Due {
    fn reason(self) -> &'static str {
        match self {
            Self::Idle => "it was idle",
            Self::Expired => "its time was up",
        }
    }
}

impl Engine {
    pub(crate) fn start_upkeep(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            for look in 0u64.. {
                ticks.tick().await;
                let Some(engine) = engine.upgrade() else { return };
                engine.save_activity().await;
                engine.end_pending_keys().await;
                if let Err(failure) = engine.end_what_is_due().await {
                    tracing::warn!(%failure, "could not check for expired and idle workspaces");
                }
                if let Err(failure) = engine.end_approvals().await {
                    tracing::warn!(%failure, "could not end requests for approval whose time is over");
                }
                if look % SUMMARISE_EVERY == 0
                    && let Err(failure) = engine.summarise_network().await
                {
                    tracing::warn!(%failure, "could not write what workspaces did on the network");
                }
                if look % PRUNE_EVERY == 0 {
                    engine.prune_records().await;
                }
            }
        });
    }

    /// Starts the task that merges disks and fills the pool, which may take a while.
    pub(crate) fn start_maintenance(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(engine) = engine.upgrade() else { return };
                engine.clean_up_after_sessions().await;
                if !engine.host.needs_maintenance().await {
                    continue;
                }
                let progress: Arc<dyn Progress> = Arc::new(Silent);
                if let Err(failure) = engine.host.maintain(&progress).await {
                    tracing::warn!(%failure, "maintenance failed");
                }
            }
        });
        *locked(&self.maintenance) = Some(task);
    }

    /// Stops background work; what is half done is undone.
    pub(crate) async fn end_maintenance(&self) {
        let Some(task) = locked(&self.maintenance).take() else { return };
        task.abort();
        if tokio::time::timeout(STOP_LIMIT, task).await.is_err() {
            tracing::warn!("background work did not stop in time; the next daemon completes it");
        }
    }

    /// Stores which sessions and workspaces were active since the last time.
    pub(crate) async fn save_activity(&self) {
        let (sessions, workspaces) = (self.sessions.take(), self.live.take_used());
        if sessions.is_empty() && workspaces.is_empty() {
            return;
        }
        if let Err(failure) = self.records.note_activity(&sessions, &workspaces).await {
            tracing::warn!(%failure, "could not store when sessions and workspaces were last active");
        }
    }

    async fn end_what_is_due(self: &Arc<Self>) -> Result<(), Failure> {
        let now = self.clock.now();
        let settings = self.records.all_settings().await?;
        for (id, settings) in settings {
            let idle = settings.idle_stop.is_some_and(|idle| {
                Duration::try_from(now.duration_since(settings.last_used)).is_ok_and(|unused| unused >= idle)
            });
            if settings.expires_at.is_some_and(|at| at <= now) {
                self.end_or_warn(id, Due::Expired).await;
            } else if idle {
                self.end_or_warn(id, Due::Idle).await;
            }
        }
        Ok(())
    }

    /// Ends a workspace. If that fails, it is tried again at the next check, and others are not affected.
    async fn end_or_warn(self: &Arc<Self>, id: WorkspaceId, due: Due) {
        if let Err(failure) = self.end(id, due).await {
            tracing::warn!(%failure, workspace = %id, ?due, "could not end an expired or idle workspace");
        }
    }

    async fn end(self: &Arc<Self>, id: WorkspaceId, due: Due) -> Result<(), Failure> {
        let live = self.live.of(id);
        let (_ending, _lock) = match due {
            // The machine is killed first: a call that waits for the guest may hold the lock.
            Due::Expired => {
                let ending = live.announce_end();
                self.host.switch_off(id).await?;
                let Ok(lock) = tokio::time::timeout(LOCK_LIMIT, live.lock_exclusive()).await else {
                    return Ok(());
                };
                (Some(ending), lock)
            }
            // A workspace in use is not idle.
            Due::Idle => match live.try_lock_exclusive() {
                Some(lock) => (None, lock),
                None => return Ok(()),
            },
        };
        let workspace = self.records.workspace(id).await?;
        let action = match due {
            Due::Expired => "workspace_destroy",
            Due::Idle if workspace.machine().is_some() && !self.is_busy(id).await => "workspace_stop",
            Due::Idle => return Ok(()),
        };
        let detail = json!({ "reason": due.reason() });
        let mut record = Record::begin(self, &Caller::operator(DAEMON), action, detail);
        record.about(&workspace);
        record.store_unless_full().await?;
        let ended = match due {
            Due::Expired => self.destroy_expired(&workspace, &live).await,
            Due::Idle => self.stop_idle(&workspace, &live).await,
        };
        record.end(ended.as_ref().map(|done| Some((*done).to_owned())).map_err(Failure::code)).await?;
        ended.map(drop)
    }

    async fn destroy_expired(
        &self,
        workspace: &Workspace,
        live: &LiveState,
    ) -> Result<&'static str, Failure> {
        let (id, name) = (workspace.id, workspace.name.as_str());
        let audience = self.events.audience_of(id).await;
        live.note_end("reached the end of its time to live");
        self.host.remove(&RemoveRequest { workspace: id, force: true }).await?;
        self.forget(id).await;
        let note = Some(Due::Expired.reason().to_owned());
        self.events.tell_to(audience, EventKind::Destroyed, id, name, note);
        Ok("destroyed")
    }

    async fn stop_idle(&self, workspace: &Workspace, live: &LiveState) -> Result<&'static str, Failure> {
        let (id, name) = (workspace.id, workspace.name.as_str());
        live.note_end("was stopped because it was idle");
        self.change_settings(id, |settings| settings.stay_stopped = true).await?;
        self.host.stop(id, false, None).await?;
        let note = Some(Due::Idle.reason().to_owned());
        self.events.tell(EventKind::Stopped, id, name, note).await;
        Ok("stopped")
    }

    /// Whether a workspace is used, something runs in its machine, or its agent does not answer.
    async fn is_busy(&self, id: WorkspaceId) -> bool {
        if self.live.is_used(id) {
            return true;
        }
        let guest = match self.host.link(id).await {
            Ok(guest) => guest,
            Err(failure) => return failure.code() != Code::WorkspaceNotRunning,
        };
        let busy = match tokio::time::timeout(ANSWER, guest.status()).await {
            Ok(Ok(status)) => status.running > 0,
            Ok(Err(_)) | Err(_) => true,
        };
        if busy {
            // It is idle from the end of its work on.
            self.live.touch(id);
        }
        busy
    }

    /// Forgets the live state and forwards of a removed workspace.
    pub(crate) async fn forget(&self, id: WorkspaceId) {
        self.forwards.close(id).await;
        self.live.forget(id);
    }

    async fn prune_records(&self) {
        timeline::prune(&*self.records).await;
        self.prune_approvals().await;
        self.rates.forget_idle();
        if let Err(failure) = self.prune_sessions(self.clock.now() - SESSIONS_KEPT).await {
            tracing::warn!(%failure, "could not remove unused sessions");
        }
        if let Err(failure) = self.records.prune_keys(self.clock.wall() - KEYS_KEPT).await {
            tracing::warn!(%failure, "could not remove old idempotency keys");
        }
    }
}
