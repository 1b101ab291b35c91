//! The engine as the backend of the HTTP interface.

use std::sync::Arc;

use agentiso_core::ports::link::{Exit, ProcessControl, ProcessEvent, Stdin};
use agentiso_core::ports::records::SessionKind;
use agentiso_core::progress::Progress;
use agentiso_core::wire::{ExecSpec, RunMachine, RunWorkspace, WorkspaceEvent};
use agentiso_core::{Failure, SessionId};
use agentiso_engine::{
    Caller, Delivered, Engine, Event, Identity, Interactive, NewSession, NotStarted, OneShot, Presence,
};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value, json};

use crate::backend::{OneShotWorkspace, RunningCommand, SessionPresence, SharedBackend, Watched};
use crate::dispatch::perform;
use crate::{Answer, Call};

/// The engine, for all callers.
pub struct EngineBackend(Arc<Engine>);

impl EngineBackend {
    /// The backend of an engine, for all its clients.
    pub fn shared(engine: &Arc<Engine>) -> Arc<dyn SharedBackend> {
        Arc::new(Self(Arc::clone(engine)))
    }
}

#[async_trait]
impl SharedBackend for EngineBackend {
    async fn call(&self, caller: &Caller, call: Call) -> Result<Answer, Failure> {
        perform(&self.0, caller, call).await
    }

    async fn exec(
        &self,
        caller: &Caller,
        workspace: &str,
        spec: ExecSpec,
    ) -> Result<Box<dyn RunningCommand>, NotStarted> {
        Ok(Box::new(self.0.interact(caller, workspace, spec).await?))
    }

    async fn create_one_shot(
        &self,
        caller: &Caller,
        requested: RunWorkspace,
        progress: Arc<dyn Progress>,
    ) -> Result<Box<dyn OneShotWorkspace>, Failure> {
        Ok(Box::new(self.0.create_one_shot(caller, requested, progress).await?))
    }

    fn events(&self, caller: &Caller) -> BoxStream<'static, Watched> {
        let watched = stream::unfold(self.0.subscribe(caller), |mut subscription| async move {
            let watched = match subscription.next().await {
                Delivered::Event(event) => Watched::Event(sent(event)),
                Delivered::Missed(missed) => Watched::Missed(missed),
            };
            Some((watched, subscription))
        });
        watched.boxed()
    }

    async fn begin_session(&self, kind: SessionKind, client: &str) -> Result<NewSession, Failure> {
        self.0.begin_session(kind, client).await
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Failure> {
        self.0.end_session(session).await
    }

    async fn has_session(&self, session: SessionId) -> bool {
        self.0.has_session(session).await
    }

    fn attend(&self, session: SessionId) -> Box<dyn SessionPresence> {
        Box::new(self.0.attend(session))
    }

    async fn caller_of(&self, token: &str) -> Result<Caller, Failure> {
        self.0.caller_of(token).await
    }

    async fn client_known_by(&self, identity: Identity<'_>, client: &str) -> Result<Caller, Failure> {
        self.0.client_known_by(identity, client).await
    }

    fn isolates(&self, caller: &Caller) -> bool {
        self.0.isolates(caller)
    }

    async fn metrics(&self) -> Result<String, Failure> {
        Ok(self.0.metrics.text(&self.0.states().await?, self.0.uptime()))
    }

    async fn health(&self) -> Result<Value, Failure> {
        let (workspaces, uptime) = (self.0.states().await?, self.0.uptime().as_secs());
        Ok(json!({ "status": "ok", "workspaces": workspaces, "uptime_seconds": uptime }))
    }
}

fn sent(event: Event) -> WorkspaceEvent {
    WorkspaceEvent {
        kind: event.kind,
        workspace_id: event.workspace_id.to_string(),
        name: event.name,
        at: event.at.to_string(),
        note: event.note,
    }
}

#[async_trait]
impl RunningCommand for Interactive {
    fn workspace(&self) -> (&str, &str) {
        (&self.workspace_id, &self.workspace_name)
    }

    async fn next(&mut self) -> Result<Option<ProcessEvent>, Failure> {
        Self::next(self).await
    }

    fn take_stdin(&mut self) -> Option<Box<dyn Stdin>> {
        self.process.take_stdin()
    }

    fn control(&self) -> Box<dyn ProcessControl> {
        self.process.control()
    }

    async fn ended(self: Box<Self>, exit: &Exit) -> Result<(), Failure> {
        Self::ended(*self, exit).await
    }
}

#[async_trait]
impl OneShotWorkspace for OneShot {
    fn workspace_id(&self) -> String {
        Self::workspace_id(self)
    }

    fn machine(&self) -> RunMachine {
        Self::machine(self).clone()
    }

    async fn destroy(self: Box<Self>) {
        Self::destroy(*self).await;
    }
}

impl SessionPresence for Presence {
    fn keep(self: Box<Self>) {
        Self::keep(*self);
    }
}
