//! A backend without an engine: it does what the test says, and remembers what it was told.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use agentiso_api::{Answer, Call, OneShotWorkspace, RunningCommand, SessionPresence, SharedBackend, Watched};
use agentiso_core::action::{Accel, Size, Tier};
use agentiso_core::ports::link::{Exit, ExitStatus, LinkError, ProcessControl, ProcessEvent, Stdin, Usage};
use agentiso_core::ports::records::SessionKind;
use agentiso_core::progress::Progress;
use agentiso_core::wire::{ExecSpec, RunMachine, RunWorkspace};
use agentiso_core::{Code, Failure, SessionId};
use agentiso_engine::{Caller, Identity, NewSession, NotStarted};
use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

/// The token of the one session that exists.
pub const SESSION_TOKEN: &str = "token-of-a-session";

/// What to do about a request.
pub enum Reply {
    /// Answers with these, one after the other.
    Outcomes(Vec<Value>),
    /// Fails.
    Fails(Box<dyn Fn() -> Failure + Send>),
    /// Reports progress, then answers.
    Reports(Value),
    /// Begins and never ends.
    Hangs,
}

/// What a command does.
#[derive(Clone, Copy, PartialEq)]
pub enum Script {
    /// Prints its input and ends with it.
    Cat,
    /// Ends when it gets a signal, with that signal.
    WaitsForSignal,
    /// Is not found.
    NotFound,
    /// Begins to start and never starts.
    NeverStarts,
    /// Its machine crashes.
    Crashes,
}

/// The backend.
pub struct Fake {
    pub replies: Mutex<HashMap<&'static str, Reply>>,
    pub script: Mutex<Script>,
    pub creates: Mutex<Option<Reply>>,
    pub isolated: bool,
    pub events: Mutex<Option<mpsc::UnboundedReceiver<Watched>>>,
    /// What happened, in order.
    pub log: Arc<Log>,
}

/// What happened, in order.
#[derive(Default)]
pub struct Log {
    entries: Mutex<Vec<String>>,
    added: Notify,
}

impl Log {
    pub fn add(&self, entry: impl Into<String>) {
        self.entries.lock().unwrap().push(entry.into());
        self.added.notify_waiters();
    }

    pub fn all(&self) -> Vec<String> {
        self.entries.lock().unwrap().clone()
    }

    /// Waits until something has happened.
    pub async fn wait_for(&self, entry: &str) {
        loop {
            let added = self.added.notified();
            tokio::pin!(added);
            added.as_mut().enable();
            if self.all().iter().any(|one| one == entry) {
                return;
            }
            added.await;
        }
    }
}

/// Notes that it was dropped.
struct NotesDrop(Arc<Log>, &'static str);

impl Drop for NotesDrop {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self {
            replies: Mutex::default(),
            script: Mutex::new(Script::Cat),
            creates: Mutex::default(),
            isolated: false,
            events: Mutex::default(),
            log: Arc::default(),
        }
    }
}

/// Fails so every time.
pub fn fails(failure: impl Fn() -> Failure + Send + 'static) -> Reply {
    Reply::Fails(Box::new(failure))
}

impl Fake {
    pub fn reply(&self, action: &'static str, reply: Reply) {
        self.replies.lock().unwrap().insert(action, reply);
    }

    pub fn run_script(&self, script: Script) {
        *self.script.lock().unwrap() = script;
    }
}

pub fn session_id() -> SessionId {
    SessionId::from_uuid(Uuid::from_u128(7))
}

fn shown(caller: &Caller) -> String {
    format!("{} {}", if caller.is_operator() { "operator" } else { "session" }, caller.client)
}

#[async_trait]
impl SharedBackend for Fake {
    async fn call(&self, caller: &Caller, call: Call) -> Result<Answer, Failure> {
        self.log.add(format!("{} {} {}", shown(caller), call.action, Value::Object(call.arguments)));
        let hangs = match self.replies.lock().unwrap().get_mut(call.action) {
            Some(Reply::Outcomes(outcomes)) => {
                let structured = outcomes.remove(0);
                return Ok(Answer { structured, text: String::new() });
            }
            Some(Reply::Fails(failure)) => return Err(failure()),
            Some(Reply::Reports(outcome)) => {
                call.progress.step("copying", Some(3));
                call.progress.done("");
                return Ok(Answer { structured: outcome.clone(), text: String::new() });
            }
            Some(Reply::Hangs) => true,
            None => false,
        };
        if !hangs {
            return Ok(Answer { structured: json!({}), text: String::new() });
        }
        let _dropped = NotesDrop(Arc::clone(&self.log), "call dropped");
        self.log.add("call hangs");
        std::future::pending().await
    }

    async fn exec(
        &self,
        caller: &Caller,
        workspace: &str,
        spec: ExecSpec,
    ) -> Result<Box<dyn RunningCommand>, NotStarted> {
        let words: Vec<String> = spec.argv.iter().map(|word| word.shown()).collect();
        self.log.add(format!("{} exec {workspace} {}", shown(caller), words.join(" ")));
        let script = *self.script.lock().unwrap();
        match script {
            Script::NotFound => {
                let failure = Failure::new(Code::GuestFailed, "not found");
                return Err(NotStarted { failure, refused: Some(agentiso_core::wire::Refused::NotFound) });
            }
            Script::NeverStarts => {
                let _dropped = NotesDrop(Arc::clone(&self.log), "start dropped");
                self.log.add("start hangs");
                std::future::pending().await
            }
            _ => {}
        }
        let (events, happened) = mpsc::channel(1);
        let log = Arc::clone(&self.log);
        Ok(Box::new(Command {
            script,
            events,
            happened,
            stdin: spec.stdin,
            _dropped: NotesDrop(Arc::clone(&log), "command dropped"),
            log,
        }))
    }

    async fn create_one_shot(
        &self,
        caller: &Caller,
        requested: RunWorkspace,
        progress: Arc<dyn Progress>,
    ) -> Result<Box<dyn OneShotWorkspace>, Failure> {
        self.log.add(format!("{} create {:?}", shown(caller), requested.base_image));
        let reply = self.creates.lock().unwrap().take();
        match reply {
            Some(Reply::Fails(failure)) => return Err(failure()),
            Some(Reply::Hangs) => {
                let _dropped = NotesDrop(Arc::clone(&self.log), "creation dropped");
                progress.step("booting", None);
                self.log.add("creation hangs");
                std::future::pending().await
            }
            _ => {}
        }
        Ok(Box::new(OneShot { _destroyed: NotesDrop(Arc::clone(&self.log), "workspace destroyed") }))
    }

    fn events(&self, caller: &Caller) -> BoxStream<'static, Watched> {
        self.log.add(format!("{} watches", shown(caller)));
        match self.events.lock().unwrap().take() {
            Some(events) => {
                stream::unfold(events, async |mut events| Some((events.recv().await?, events))).boxed()
            }
            None => stream::pending().boxed(),
        }
    }

    async fn begin_session(&self, kind: SessionKind, client: &str) -> Result<NewSession, Failure> {
        self.log.add(format!("begin {kind:?} {client}"));
        Ok(NewSession { id: session_id(), token: SESSION_TOKEN.to_owned() })
    }

    async fn end_session(&self, _: SessionId) -> Result<(), Failure> {
        self.log.add("session ended");
        Ok(())
    }

    async fn has_session(&self, _: SessionId) -> bool {
        true
    }

    fn attend(&self, _: SessionId) -> Box<dyn SessionPresence> {
        self.log.add("present");
        Box::new(Present(NotesDrop(Arc::clone(&self.log), "absent")))
    }

    async fn caller_of(&self, token: &str) -> Result<Caller, Failure> {
        if token == SESSION_TOKEN {
            return Ok(Caller { session: Some(session_id()), client: "agent".to_owned() });
        }
        Err(Failure::new(Code::Unauthorized, "no session has this token"))
    }

    async fn client_known_by(&self, identity: Identity<'_>, client: &str) -> Result<Caller, Failure> {
        self.log.add(format!("known by {identity:?}"));
        Ok(Caller { session: Some(session_id()), client: client.to_owned() })
    }

    fn isolates(&self, caller: &Caller) -> bool {
        self.isolated && !caller.is_operator()
    }

    async fn metrics(&self) -> Result<String, Failure> {
        Ok("agentiso_workspaces 1\n".to_owned())
    }

    async fn health(&self) -> Result<Value, Failure> {
        Ok(json!({ "status": "ok" }))
    }
}

struct Present(NotesDrop);

impl SessionPresence for Present {
    fn keep(self: Box<Self>) {
        self.0.0.add("kept");
    }
}

struct OneShot {
    _destroyed: NotesDrop,
}

#[async_trait]
impl OneShotWorkspace for OneShot {
    fn workspace_id(&self) -> String {
        "one-shot".to_owned()
    }

    fn machine(&self) -> RunMachine {
        RunMachine {
            start_ms: 1.5,
            tier: Tier::Pool,
            accel: Some(Accel::Tcg),
            base_image: "debian".to_owned(),
            resources: Size { vcpus: 1, memory_mb: 512, disk_gb: 10 },
        }
    }

    async fn destroy(self: Box<Self>) {}
}

/// A command that follows a script.
struct Command {
    script: Script,
    events: mpsc::Sender<ProcessEvent>,
    happened: mpsc::Receiver<ProcessEvent>,
    stdin: bool,
    log: Arc<Log>,
    _dropped: NotesDrop,
}

fn exited(status: ExitStatus) -> ProcessEvent {
    let usage = Usage { wall_us: 1, user_us: 2, system_us: 3, max_rss_kib: 4 };
    ProcessEvent::Exited(Exit { status, timed_out: false, cancelled: false, usage })
}

#[async_trait]
impl RunningCommand for Command {
    fn workspace(&self) -> (&str, &str) {
        ("1", "web")
    }

    async fn next(&mut self) -> Result<Option<ProcessEvent>, Failure> {
        if self.script == Script::Crashes {
            return Err(Failure::new(Code::VmCrashed, "the machine ended"));
        }
        Ok(self.happened.recv().await)
    }

    fn take_stdin(&mut self) -> Option<Box<dyn Stdin>> {
        let takes = std::mem::take(&mut self.stdin);
        takes.then(|| Box::new(Input { script: self.script, events: self.events.clone() }) as Box<dyn Stdin>)
    }

    fn control(&self) -> Box<dyn ProcessControl> {
        Box::new(Control { events: self.events.clone(), log: Arc::clone(&self.log) })
    }

    async fn ended(self: Box<Self>, _: &Exit) -> Result<(), Failure> {
        self.log.add("command ended");
        Ok(())
    }
}

struct Input {
    script: Script,
    events: mpsc::Sender<ProcessEvent>,
}

#[async_trait]
impl Stdin for Input {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        if self.script == Script::Cat {
            let _ = self.events.send(ProcessEvent::Stdout(bytes.to_vec().into())).await;
        }
        Ok(())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        let events = self.events.clone();
        if self.script == Script::Cat {
            tokio::spawn(async move { events.send(exited(ExitStatus::Code(0))).await });
        }
    }
}

struct Control {
    events: mpsc::Sender<ProcessEvent>,
    log: Arc<Log>,
}

#[async_trait]
impl ProcessControl for Control {
    fn cancel(&self) {}

    async fn signal(&self, signal: i32) -> Result<(), LinkError> {
        self.log.add(format!("signal {signal}"));
        let _ = self.events.send(exited(ExitStatus::Signal(signal))).await;
        Ok(())
    }

    async fn detach(&self, _: Option<u64>) -> Result<(), LinkError> {
        Ok(())
    }

    async fn report_input(&self) -> Result<(), LinkError> {
        Ok(())
    }

    async fn resize(&self, columns: u16, rows: u16) -> Result<(), LinkError> {
        self.log.add(format!("resize {columns} {rows}"));
        Ok(())
    }
}
