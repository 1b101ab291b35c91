//! What the daemon does by itself: workspaces whose time is up, disks, the pool, and its own books.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::host::RemoveRequest;
use agentiso_core::ports::records::Workspace;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Code, Failure, WorkspaceId};
use serde_json::json;
use tokio::time::MissedTickBehavior;

use crate::events::EventKind;
use crate::record::Record;
use crate::rooms::{Room, locked};
use crate::{Caller, Engine, timeline};

/// Between two looks at what is due.
const EVERY: Duration = Duration::from_secs(5);
/// Between two cleanings of the books, in looks.
const BOOKS: u64 = 120;
/// A session that owns nothing is forgotten after this.
const SESSIONS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// An idempotency key is good for this long.
const KEYS_KEPT: Duration = Duration::from_secs(24 * 3600);

/// How long those who are at work on a workspace whose machine was killed may take to notice, before others whose time
/// is up are looked at.
const TURN: Duration = Duration::from_secs(2);
/// How long what is done in the background may take to be given up when the daemon ends.
const GIVING_UP: Duration = Duration::from_secs(10);
/// An agent that does not answer for so long may be at work.
const ANSWER: Duration = Duration::from_secs(5);
/// Who does what nobody asked for, in the timeline.
pub(crate) const ITSELF: &str = "agentiso";

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
                if let Err(failure) = engine.end_what_is_due().await {
                    tracing::warn!(%failure, "could not look for workspaces whose time is up");
                }
                if look % BOOKS == 0 {
                    engine.clean_books().await;
                }
            }
        });
    }

    /// Merging disks and filling the pool may take a while, and nothing waits for it.
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
                    tracing::warn!(%failure, "the maintenance failed");
                }
            }
        });
        *locked(&self.maintenance) = Some(task);
    }

    /// Gives up what is done in the background: what was half done is undone.
    pub(crate) async fn end_maintenance(&self) {
        let Some(task) = locked(&self.maintenance).take() else { return };
        task.abort();
        if tokio::time::timeout(GIVING_UP, task).await.is_err() {
            tracing::warn!("what is done in the background is left to the next daemon");
        }
    }

    /// Writes down who and what was active since the last time.
    pub(crate) async fn save_activity(&self) {
        let (sessions, workspaces) = (self.sessions.take(), self.rooms.take_used());
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

    /// One that cannot be ended keeps no other from its end, and is tried again.
    async fn end_or_warn(self: &Arc<Self>, id: WorkspaceId, due: Due) {
        if let Err(failure) = self.end(id, due).await {
            tracing::warn!(%failure, workspace = %id, ?due, "a workspace whose time is up could not be ended");
        }
    }

    async fn end(self: &Arc<Self>, id: WorkspaceId, due: Due) -> Result<(), Failure> {
        let room = self.rooms.of(id);
        let (_ending, _turn) = match due {
            // QEMU first: a call that waits for the guest may have the turn.
            Due::Expired => {
                let ending = room.ending();
                self.host.switch_off(id).await?;
                let Ok(turn) = tokio::time::timeout(TURN, room.change()).await else { return Ok(()) };
                (Some(ending), turn)
            }
            // One that somebody is at work on is not idle, and is looked at again.
            Due::Idle => match room.change_if_free() {
                Some(turn) => (None, turn),
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
        let mut record = Record::begin(self, &Caller::operator(ITSELF), action, detail);
        record.about(&workspace);
        record.store().await?;
        let ended = match due {
            Due::Expired => self.destroy_expired(&workspace, &room).await,
            Due::Idle => self.stop_idle(&workspace, &room).await,
        };
        record.end(ended.as_ref().map(|done| Some((*done).to_owned())).map_err(Failure::code)).await?;
        ended.map(drop)
    }

    async fn destroy_expired(&self, workspace: &Workspace, room: &Room) -> Result<&'static str, Failure> {
        let (id, name) = (workspace.id, workspace.name.as_str());
        let audience = self.events.audience_of(id).await;
        room.note_end("reached the end of its time to live");
        self.host.remove(&RemoveRequest { workspace: id, force: true }).await?;
        self.forget(id).await;
        let note = Some(Due::Expired.reason().to_owned());
        self.events.tell_to(audience, EventKind::Destroyed, id, name, note);
        Ok("destroyed")
    }

    async fn stop_idle(&self, workspace: &Workspace, room: &Room) -> Result<&'static str, Failure> {
        let (id, name) = (workspace.id, workspace.name.as_str());
        room.note_end("was stopped because it was idle");
        self.change_settings(id, |settings| settings.stay_stopped = true).await?;
        self.host.stop(id, false, None).await?;
        let note = Some(Due::Idle.reason().to_owned());
        self.events.tell(EventKind::Stopped, id, name, note).await;
        Ok("stopped")
    }

    /// Whether somebody came while we looked, or something runs in the machine, or nobody knows.
    async fn is_busy(&self, id: WorkspaceId) -> bool {
        if self.rooms.is_used(id) {
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
            // It is idle from when its work ends, not from when somebody began it.
            self.rooms.touch(id);
        }
        busy
    }

    /// Forgets what was kept beside a workspace that is gone.
    pub(crate) async fn forget(&self, id: WorkspaceId) {
        self.forwards.close(id).await;
        self.rooms.close(id);
    }

    async fn clean_books(&self) {
        timeline::prune(&*self.records).await;
        self.rates.forget_idle();
        if let Err(failure) = self.prune_sessions(self.clock.now() - SESSIONS_KEPT).await {
            tracing::warn!(%failure, "could not remove sessions that are not used any more");
        }
        if let Err(failure) = self.records.prune_keys(self.clock.wall() - KEYS_KEPT).await {
            tracing::warn!(%failure, "could not remove old idempotency keys");
        }
    }
}
