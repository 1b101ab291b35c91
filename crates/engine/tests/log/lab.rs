//! An engine over a fake host.

use std::sync::{Arc, Mutex};

use agentiso_core::action::{Exec, Executed, Timeline, TimelineEvent, WorkspaceCreate};
use agentiso_core::admission::{Principal, Ruling};
use agentiso_core::ports::CommandPolicy;
use agentiso_core::ports::link;
use agentiso_core::ports::records::SessionKind;
use agentiso_core::progress::Silent;
use agentiso_core::{EngineSettings, Failure, WorkspaceId};
use agentiso_engine::{Caller, Engine, Perform, Ports};
use agentiso_testing::fake::{FakeClock, FakeHost, FakeNetwork, FakePackages, TestRecords, engine_settings};

pub struct Lab {
    pub engine: Arc<Engine>,
    pub host: FakeHost,
    pub records: TestRecords,
    pub policy: Arc<OneRuling>,
    pub clock: Arc<FakeClock>,
    settings: EngineSettings,
}

/// A policy that says the same about every command.
pub struct OneRuling(Mutex<Ruling>);

impl OneRuling {
    pub fn set(&self, ruling: Ruling) {
        *self.0.lock().unwrap() = ruling;
    }
}

impl CommandPolicy for OneRuling {
    fn rule(&self, _: Principal, _: WorkspaceId, _: &link::Exec) -> Ruling {
        self.0.lock().unwrap().clone()
    }
}

impl Lab {
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub async fn with(adjust: impl FnOnce(&mut EngineSettings)) -> Self {
        let records = TestRecords::new();
        let mut settings = engine_settings(&records);
        adjust(&mut settings);
        let host = FakeHost::new(Arc::clone(records.meta()));
        let policy = Arc::new(OneRuling(Mutex::new(Ruling::Allow)));
        let clock = Arc::new(FakeClock::new());
        let engine = open(&host, &policy, &clock, &settings).await;
        Self { engine, host, records, policy, clock, settings }
    }

    /// Opens another engine on the same host, as the next daemon does.
    pub async fn reopen(&mut self) {
        self.engine = open(&self.host, &self.policy, &self.clock, &self.settings).await;
    }

    pub async fn session(&self, client: &str) -> Caller {
        let begun = self.engine.begin_session(SessionKind::Mcp, client).await.unwrap();
        Caller { session: Some(begun.id), client: client.to_owned() }
    }

    pub async fn act<A: Perform>(&self, caller: &Caller, action: A) -> Result<A::Outcome, Failure> {
        self.engine.act(caller, action, Arc::new(Silent)).await
    }

    pub async fn create(&self, caller: &Caller, name: &str) -> WorkspaceId {
        let create = WorkspaceCreate { name: Some(name.to_owned()), ..WorkspaceCreate::default() };
        self.act(caller, create).await.unwrap().workspace_id.parse().unwrap()
    }

    pub async fn exec(&self, caller: &Caller, workspace: &str, command: &str) -> Result<Executed, Failure> {
        let (workspace_id, command) = (workspace.to_owned(), command.to_owned());
        self.act(caller, Exec { workspace_id, command, ..Exec::default() }).await
    }

    /// The entries of an action, newest first, as the operator sees them.
    pub async fn entries(&self, action: &str) -> Vec<TimelineEvent> {
        let all = Timeline { limit: Some(1000), ..Timeline::default() };
        let mut events = self.act(&operator(), all).await.unwrap().events;
        events.retain(|event| event.action == action);
        events
    }

    /// Waits until the newest entry of an action has an outcome.
    pub async fn until(&self, action: &str, outcome: &str) {
        while self.entries(action).await.first().is_none_or(|entry| entry.outcome != outcome) {
            tokio::task::yield_now().await;
        }
    }
}

pub fn operator() -> Caller {
    Caller::operator("test")
}

async fn open(
    host: &FakeHost,
    policy: &Arc<OneRuling>,
    clock: &Arc<FakeClock>,
    settings: &EngineSettings,
) -> Arc<Engine> {
    let ports = Ports {
        host: Arc::new(host.clone()),
        records: Arc::clone(host.meta()) as _,
        clock: Arc::clone(clock) as _,
        policy: Arc::clone(policy) as _,
        network: Arc::new(FakeNetwork::default()),
        packages: Arc::new(FakePackages::default()),
    };
    Engine::open(ports, settings.clone()).await.unwrap()
}
