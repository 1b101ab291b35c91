//! The door: one way in for every action of every client.

use std::sync::Arc;
use std::time::Instant;

use agentiso_core::action::Rate;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure};
use agentiso_meta::{NewEvent, Workspace};
use agentiso_runtime::guest::Guest;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Notify;

use crate::access::{Access, Perform};
use crate::redact::redacted;
use crate::rooms::AtWork;
use crate::{Caller, Engine};

/// What an action has to work with.
#[derive(Clone)]
pub struct Context {
    /// The engine.
    pub(crate) engine: Arc<Engine>,
    /// Who asks.
    pub(crate) caller: Caller,
    /// The workspace it is about.
    workspace: Option<Workspace>,
    /// Who is told how far it has come.
    pub(crate) progress: Arc<dyn Progress>,
    /// Told when the way into the workspace was found.
    inside: Arc<Notify>,
    _at_work: Option<Arc<AtWork>>,
}

impl Context {
    /// The workspace it is about.
    pub(crate) fn workspace(&self) -> Result<&Workspace, Failure> {
        self.workspace.as_ref().ok_or_else(|| Failure::new(Code::Internal, "an action without a workspace"))
    }

    /// The way into the workspace. Waits while it is being changed as a whole.
    pub(crate) async fn guest(&self) -> Result<Guest, Failure> {
        let guest = self.engine.guest(self.workspace()?.id).await?;
        self.inside.notify_one();
        Ok(guest)
    }

    /// Waits, once somebody is inside, for the machine to stand still because the host's disk is full: whoever waits
    /// for it to do something would wait for ever.
    async fn standstill(&self) -> Failure {
        self.inside.notified().await;
        match &self.workspace {
            Some(workspace) => self.engine.workspaces.standstill(workspace.id).await,
            None => std::future::pending().await,
        }
    }

    /// Adds to the news that a machine is gone what it said last.
    pub(crate) fn explained(&self, failure: Failure) -> Failure {
        match &self.workspace {
            Some(workspace) if failure.code() == Code::VmCrashed => {
                self.engine.workspaces.explain_end(workspace, failure)
            }
            _ => failure,
        }
    }
}

impl Engine {
    /// Carries out what a caller asks for, if it may.
    pub async fn act<A: Perform>(
        self: &Arc<Self>,
        caller: &Caller,
        action: A,
        progress: Arc<dyn Progress>,
    ) -> Result<A::Outcome, Failure> {
        let mut record = Record::begin(self, caller, A::ABOUT.name, redacted(&action));
        let result = self.admit(caller, action.workspace(), A::ABOUT.rate, progress, &mut record);
        let result = match result {
            Ok(context) => run(action, context).await,
            Err(failure) => Err(failure),
        };
        if let Ok(outcome) = &result
            && let Some(made) = A::made(outcome)
            && let Ok(workspace) = self.find(made)
        {
            record.about(&workspace);
        }
        record.end(match &result {
            Ok(outcome) => Ok(A::changed(outcome)),
            Err(failure) => Err(failure.code()),
        });
        result
    }

    /// Decides whether a caller may do what it asks for.
    pub(crate) fn admit(
        self: &Arc<Self>,
        caller: &Caller,
        workspace: Option<&str>,
        rate: Rate,
        progress: Arc<dyn Progress>,
        record: &mut Record,
    ) -> Result<Context, Failure> {
        self.sessions.touch(caller);
        self.rates.admit(caller, rate)?;
        let workspace = match workspace {
            Some(asked) => Some(self.find(asked)?),
            None => None,
        };
        if let Some(workspace) = &workspace {
            record.about(workspace);
            self.require_owner(caller, workspace)?;
        }
        let at_work = workspace.as_ref().map(|workspace| Arc::new(self.rooms.work_on(workspace.id)));
        Ok(Context {
            engine: Arc::clone(self),
            caller: caller.clone(),
            workspace,
            progress,
            inside: Arc::default(),
            _at_work: at_work,
        })
    }

    /// Finds a workspace by id, name, or the beginning of its short id.
    pub(crate) fn find(&self, asked: &str) -> Result<Workspace, Failure> {
        Ok(self.meta().read(|read| read.find_workspace(asked))?)
    }
}

async fn run<A: Perform>(action: A, context: Context) -> Result<A::Outcome, Failure> {
    if matches!(A::ACCESS, Access::Looks | Access::Works) {
        let done = tokio::select! {
            done = action.perform(&context) => done,
            failure = context.standstill() => Err(failure),
        };
        return done.map_err(|failure| context.explained(failure));
    }
    // In a task of its own, so that a caller that goes away leaves nothing half done.
    let task = tokio::spawn(async move {
        let room = context.workspace.as_ref().map(|workspace| context.engine.rooms.of(workspace.id));
        let _turn = match (&room, A::ACCESS) {
            (Some(room), Access::Changes) => Some(room.change().await),
            _ => None,
        };
        action.perform(&context).await
    });
    task.await.map_err(|error| Failure::new(Code::Internal, format!("{}: {error}", A::ABOUT.name)))?
}

/// What will be remembered of an action. One whose caller went away is remembered as cancelled.
pub(crate) struct Record {
    engine: Arc<Engine>,
    began: Instant,
    event: Option<NewEvent>,
}

impl Record {
    pub fn begin(engine: &Arc<Engine>, caller: &Caller, action: &str, detail: Value) -> Self {
        let event = NewEvent {
            at: Timestamp::now(),
            workspace: None,
            workspace_name: None,
            session: caller.session,
            client: caller.client.clone(),
            action: action.to_owned(),
            detail,
            duration: std::time::Duration::ZERO,
            outcome: Code::Cancelled.as_str().to_owned(),
            changed: None,
        };
        Self { engine: Arc::clone(engine), began: Instant::now(), event: Some(event) }
    }

    pub fn about(&mut self, workspace: &Workspace) {
        if let Some(event) = &mut self.event {
            event.workspace = Some(workspace.id);
            event.workspace_name = Some(workspace.name.clone());
        }
    }

    pub fn end(mut self, result: Result<Option<String>, Code>) {
        if let Some(event) = &mut self.event {
            match result {
                Ok(changed) => {
                    "ok".clone_into(&mut event.outcome);
                    event.changed = changed;
                }
                Err(code) => code.as_str().clone_into(&mut event.outcome),
            }
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.duration = self.began.elapsed();
            self.engine.metrics.count(&event.action, &event.outcome, event.duration);
            self.engine.timeline.append(event);
        }
    }
}
