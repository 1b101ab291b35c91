//! The timeline entry of one call.
//!
//! ```text
//!  begun ──► stored as `running`, before the action is carried out ──► completed, before its answer leaves
//!    │            │ client disconnects                                   ▲
//!    │            └──► completed as `cancelled` ─────────────────────────┘ (queued)
//!    └──► the action only reads, is refused, or may free space on a full disk: queued as a complete entry
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::ports::records::{EventEnd, MAX_DETAIL, NewEvent, Workspace};
use agentiso_core::{Code, Failure};
use serde_json::{Value, json};

use crate::live_state::locked;
use crate::redact::without_known;
use crate::timeline::Note;
use crate::{Caller, Engine};

/// The entry of a call. One that is dropped before its end was noted is completed as cancelled.
pub(crate) struct Record {
    engine: Arc<Engine>,
    began: Instant,
    event: NewEvent,
    /// Its place in the timeline, if it is stored.
    id: Option<i64>,
    /// Whether nothing is left to write.
    done: bool,
}

impl Record {
    pub fn begin(engine: &Arc<Engine>, caller: &Caller, action: &str, detail: Value) -> Self {
        let event = NewEvent {
            at: engine.clock.wall(),
            workspace: None,
            workspace_name: None,
            session: caller.session,
            client: caller.shown(),
            action: action.to_owned(),
            detail,
            duration: Duration::ZERO,
            outcome: Code::Cancelled.as_str().to_owned(),
            changed: None,
        };
        Self { engine: Arc::clone(engine), began: Instant::now(), event, id: None, done: false }
    }

    /// Names the workspace that the call is about, whose secrets are then removed from the entry.
    pub fn about(&mut self, workspace: &Workspace) {
        self.event.workspace = Some(workspace.id);
        self.event.workspace_name = Some(workspace.name.clone());
        let live = self.engine.live.of(workspace.id);
        let env = locked(&live.env);
        let detail = without_known(&self.event.detail, &env.secrets());
        // What stands for a secret may be longer than the secret.
        let fits = detail.to_string().len() <= MAX_DETAIL;
        self.event.detail = if fits { detail } else { json!({}) };
    }

    /// Stores the entry of an action that is about to be carried out. If that fails, it must not be.
    pub async fn store(&mut self) -> Result<(), Failure> {
        self.id = Some(self.engine.records.begin_event(&self.event).await?);
        Ok(())
    }

    /// Like [`Self::store`], for actions that may free space: a full disk does not prevent them. Their entry is then queued
    /// when they end.
    pub async fn store_unless_full(&mut self) -> Result<(), Failure> {
        match self.store().await {
            Err(failure) if failure.code() == Code::DiskFull => {
                tracing::warn!(%failure, action = self.event.action, "carried out before its timeline entry is stored");
                Ok(())
            }
            stored => stored,
        }
    }

    /// Notes how the call ended: what it changed, or why it failed. Fails only if the entry of a call that changed
    /// nothing cannot be queued.
    pub async fn end(mut self, result: Result<Option<String>, Code>) -> Result<(), Failure> {
        match result {
            Ok(changed) => {
                "ok".clone_into(&mut self.event.outcome);
                self.event.changed = changed;
            }
            Err(code) => code.as_str().clone_into(&mut self.event.outcome),
        }
        self.event.duration = self.began.elapsed();
        let Some(end) = self.end_of_stored() else {
            self.engine.timeline.append(self.event.clone()).await?;
            self.finish();
            return Ok(());
        };
        match self.engine.records.complete_events(&[end]).await {
            Ok(()) => self.finish(),
            // The action is done, so its caller is told so. The end is queued when this is dropped.
            Err(failure) => tracing::warn!(%failure, "could not complete a timeline entry; trying again"),
        }
        Ok(())
    }

    fn end_of_stored(&self) -> Option<EventEnd> {
        let NewEvent { workspace, workspace_name, duration, outcome, changed, .. } = self.event.clone();
        let workspace = workspace.zip(workspace_name);
        self.id.map(|id| EventEnd { id, workspace, duration, outcome, changed })
    }

    fn finish(&mut self) {
        self.done = true;
        self.engine.metrics.count(&self.event.action, &self.event.outcome, self.event.duration);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if self.event.duration == Duration::ZERO {
            self.event.duration = self.began.elapsed();
        }
        self.finish();
        self.engine.timeline.leave(match self.end_of_stored() {
            Some(end) => Note::End(Box::new(end)),
            None => Note::Entry(Box::new(self.event.clone())),
        });
    }
}
