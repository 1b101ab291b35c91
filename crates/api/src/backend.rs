//! What the interfaces stand on.
//!
//! ```text
//!  MCP server ──► Backend        actions of one client: the daemon's engine, or a daemon behind a socket
//!                    ▲
//!                 ForCaller      one client of a shared backend
//!                    │
//!  HTTP router ──► SharedBackend actions, streams, events, sessions and metrics for all clients of a daemon
//!                    ▲
//!                 EngineBackend  the engine
//! ```

use std::future::Future;
use std::sync::Arc;

use agentiso_core::action::Action;
use agentiso_core::ports::link::{Exit, ProcessControl, ProcessEvent, Stdin};
use agentiso_core::ports::records::SessionKind;
use agentiso_core::progress::Progress;
use agentiso_core::wire::{ExecSpec, RunMachine, RunWorkspace, WorkspaceEvent};
use agentiso_core::{Code, Failure, SessionId, in_clear};
use agentiso_engine::{Caller, Identity, NewSession, NotStarted};
use async_trait::async_trait;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

/// Performs the actions of one client.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Performs an action. If the future is dropped, the client is gone: commands in a guest are ended; changes of a
    /// workspace are finished.
    fn call(&self, call: Call) -> impl Future<Output = Result<Answer, Failure>> + Send;

    /// Performs an action for a client that gives itself this name. A backend that records nothing may ignore the name.
    fn call_for(&self, client: &str, call: Call) -> impl Future<Output = Result<Answer, Failure>> + Send {
        let _ = client;
        self.call(call)
    }
}

/// Everything a daemon offers to all its clients.
#[async_trait]
pub trait SharedBackend: Send + Sync + 'static {
    /// Performs an action for a caller. If the future is dropped, the caller is gone, as with [`Backend::call`].
    async fn call(&self, caller: &Caller, call: Call) -> Result<Answer, Failure>;

    /// Starts a command in a workspace.
    async fn exec(
        &self,
        caller: &Caller,
        workspace: &str,
        spec: ExecSpec,
    ) -> Result<Box<dyn RunningCommand>, NotStarted>;

    /// Creates a workspace for one command. If the future is dropped, the creation is undone.
    async fn create_one_shot(
        &self,
        caller: &Caller,
        requested: RunWorkspace,
        progress: Arc<dyn Progress>,
    ) -> Result<Box<dyn OneShotWorkspace>, Failure>;

    /// Events of the workspaces that a caller may see, from now on.
    fn events(&self, caller: &Caller) -> BoxStream<'static, Watched>;

    /// Starts a session.
    async fn begin_session(&self, kind: SessionKind, client: &str) -> Result<NewSession, Failure>;

    /// Ends a session. Its workspaces are left without an owner.
    async fn end_session(&self, session: SessionId) -> Result<(), Failure>;

    /// Whether a session exists. One that could not be looked up does.
    async fn has_session(&self, session: SessionId) -> bool;

    /// Notes that the client of a session is connected, until what is returned is dropped.
    fn attend(&self, session: SessionId) -> Box<dyn SessionPresence>;

    /// The caller that a session's token belongs to; fails with `unauthorized` if there is none.
    async fn caller_of(&self, token: &str) -> Result<Caller, Failure>;

    /// The session of a client that has the user's token and says which client it is. It starts when it is first named.
    async fn client_known_by(&self, identity: Identity<'_>, client: &str) -> Result<Caller, Failure>;

    /// Whether a caller sees only what it owns.
    fn isolates(&self, caller: &Caller) -> bool;

    /// Metrics in Prometheus' text format.
    async fn metrics(&self) -> Result<String, Failure>;

    /// Whether the daemon works, as JSON.
    async fn health(&self) -> Result<Value, Failure>;
}

/// A command that runs. Dropping it ends the command.
#[async_trait]
pub trait RunningCommand: Send {
    /// Id and name of its workspace.
    fn workspace(&self) -> (&str, &str);

    /// The command's next event; `None` once it has ended. Cancel safe.
    async fn next(&mut self) -> Result<Option<ProcessEvent>, Failure>;

    /// Its standard input, once, if the spec asked for it.
    fn take_stdin(&mut self) -> Option<Box<dyn Stdin>>;

    /// A handle that signals or resizes it.
    fn control(&self) -> Box<dyn ProcessControl>;

    /// Records how it ended.
    async fn ended(self: Box<Self>, exit: &Exit) -> Result<(), Failure>;
}

/// A workspace that exists for one command. Dropping it destroys it in the background.
#[async_trait]
pub trait OneShotWorkspace: Send {
    /// Its id.
    fn workspace_id(&self) -> String;

    /// Its machine.
    fn machine(&self) -> RunMachine;

    /// Destroys it, and returns when it is gone.
    async fn destroy(self: Box<Self>);
}

/// A session whose client is connected. Some time after this is dropped, the session ends.
pub trait SessionPresence: Send + Sync {
    /// Leaves the session as it is: its client may reconnect.
    fn keep(self: Box<Self>);
}

/// What a watcher of workspaces is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Watched {
    /// Something happened to a workspace.
    Event(WorkspaceEvent),
    /// The watcher was too slow: this many events were dropped.
    Missed(u64),
}

/// A requested action.
#[derive(Clone)]
pub struct Call {
    /// Its name.
    pub action: &'static str,
    /// Its parameters.
    pub arguments: Map<String, Value>,
    /// Where its progress is reported.
    pub progress: Arc<dyn Progress>,
}

impl Call {
    /// A call of a typed action.
    pub fn of<A: Action>(action: &A, progress: Arc<dyn Progress>) -> Result<Self, Failure> {
        match in_clear(|| serde_json::to_value(action)) {
            Ok(Value::Object(arguments)) => Ok(Self { action: A::ABOUT.name, arguments, progress }),
            _ => Err(Failure::new(Code::Internal, format!("{} cannot be written as JSON", A::ABOUT.name))),
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// For programs, as its schema says.
    pub structured: Value,
    /// For readers.
    pub text: String,
}

/// One client of a shared backend.
#[derive(Clone)]
pub struct ForCaller {
    /// The backend.
    pub backend: Arc<dyn SharedBackend>,
    /// The client.
    pub caller: Caller,
}

impl Backend for ForCaller {
    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        self.backend.call(&self.caller, call).await
    }

    async fn call_for(&self, client: &str, call: Call) -> Result<Answer, Failure> {
        let caller = Caller { client: client.to_owned(), ..self.caller.clone() };
        self.backend.call(&caller, call).await
    }
}
