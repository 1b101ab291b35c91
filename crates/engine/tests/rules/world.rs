//! An engine over a fake host, with a clock that stands still.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::records::{SessionKind, Settings, Workspace, WorkspaceRecords};
use agentiso_core::ports::{AllowAll, CommandPolicy};
use agentiso_core::progress::Silent;
use agentiso_core::{Code, EngineSettings, Failure, Isolation, SessionId, WorkspaceId};
use agentiso_engine::{Caller, Engine, Ports};
use agentiso_testing::fake::{FakeClock, FakeHost, FakeNetwork, FakePackages, TestRecords, engine_settings};
use serde_json::{Value, json};

use crate::actions;

/// An engine and everything under it.
pub struct World {
    pub engine: Arc<Engine>,
    pub host: FakeHost,
    pub clock: Arc<FakeClock>,
    pub records: TestRecords,
    pub settings: EngineSettings,
    pub network: FakeNetwork,
    pub packages: FakePackages,
    policy: Arc<dyn CommandPolicy>,
}

impl World {
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// One whose settings are changed before it opens.
    pub async fn with(adjust: impl FnOnce(&mut EngineSettings)) -> Self {
        Self::with_policy(AllowAll, adjust).await
    }

    /// One in which a policy rules on commands.
    pub async fn with_policy(
        policy: impl CommandPolicy + 'static,
        adjust: impl FnOnce(&mut EngineSettings),
    ) -> Self {
        let records = TestRecords::new();
        let mut settings = engine_settings(&records);
        adjust(&mut settings);
        let host = FakeHost::with_limits(Arc::clone(records.meta()), settings.limits);
        let clock = Arc::new(FakeClock::new());
        let policy: Arc<dyn CommandPolicy> = Arc::new(policy);
        let (network, packages) = (FakeNetwork::default(), FakePackages::default());
        let engine = open(&host, &clock, &policy, (&network, &packages), &settings).await.unwrap();
        Self { engine, host, clock, records, settings, network, packages, policy }
    }

    pub async fn strict() -> Self {
        Self::with(|settings| settings.isolation = Isolation::Strict).await
    }

    /// Ends the engine and opens another one, as a daemon that is restarted does.
    pub async fn reopen(&mut self) {
        self.try_reopen().await.unwrap();
    }

    /// The same, if it may fail.
    pub async fn try_reopen(&mut self) -> Result<(), Failure> {
        let net = (&self.network, &self.packages);
        self.engine = open(&self.host, &self.clock, &self.policy, net, &self.settings).await?;
        Ok(())
    }

    /// The client of a new session.
    pub async fn session(&self, client: &str) -> Caller {
        let begun = self.engine.begin_session(SessionKind::Mcp, client).await.unwrap();
        Caller { session: Some(begun.id), client: client.to_owned() }
    }

    /// Carries out an action by its name.
    pub async fn call(&self, caller: &Caller, action: &str, arguments: Value) -> Result<Value, Failure> {
        actions::call(&self.engine, caller, action, arguments).await
    }

    /// The same, if it must succeed.
    #[track_caller]
    pub fn ok<'a>(
        &'a self,
        caller: &'a Caller,
        action: &'a str,
        arguments: Value,
    ) -> impl Future<Output = Value> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let shown = arguments.to_string();
            let done = self.call(caller, action, arguments).await;
            done.unwrap_or_else(|failure| panic!("{place}: {action} {shown}: {failure:?}"))
        }
    }

    /// The same, if it must be refused with a code.
    #[track_caller]
    pub fn refused<'a>(
        &'a self,
        caller: &'a Caller,
        action: &'a str,
        arguments: Value,
        code: Code,
    ) -> impl Future<Output = Failure> + 'a {
        let place = std::panic::Location::caller();
        async move {
            let shown = arguments.to_string();
            match self.call(caller, action, arguments).await {
                Ok(answer) => panic!("{place}: {action} {shown} was done: {answer}"),
                Err(failure) => {
                    assert_eq!(failure.code(), code, "{place}: {action} {shown}: {failure:?}");
                    failure
                }
            }
        }
    }

    /// A running workspace of a caller.
    pub async fn create(&self, caller: &Caller, name: &str) -> WorkspaceId {
        let made = self.ok(caller, "workspace_create", json!({ "name": name })).await;
        made["workspace_id"].as_str().unwrap().parse().unwrap()
    }

    /// What a command line prints.
    pub async fn sh(&self, caller: &Caller, workspace: &str, line: &str) -> String {
        let done = self.ok(caller, "exec", json!({ "workspace_id": workspace, "command": line })).await;
        assert_eq!(done["exit_code"], 0, "{done}");
        done["stdout"].as_str().unwrap().to_owned()
    }

    pub async fn owner(&self, id: WorkspaceId) -> Option<SessionId> {
        self.stored(id).await.owner
    }

    pub async fn stored(&self, id: WorkspaceId) -> Settings {
        WorkspaceRecords::settings(&**self.records.meta(), id).await.unwrap()
    }

    pub async fn workspace(&self, id: WorkspaceId) -> Workspace {
        WorkspaceRecords::workspace(&**self.records.meta(), id).await.unwrap()
    }

    /// The names of all workspaces.
    pub async fn names(&self) -> Vec<String> {
        let all = WorkspaceRecords::workspaces(&**self.records.meta()).await.unwrap();
        all.iter().map(|workspace| workspace.name.to_string()).collect()
    }

    /// The timeline as the user sees it, newest first.
    pub async fn timeline(&self) -> Vec<Value> {
        let shown = self.ok(&user(), "timeline", json!({ "limit": 1000 })).await;
        shown["events"].as_array().unwrap().clone()
    }

    /// Lets the engine look once more at what is due. The clock that time limits are counted on stands still.
    pub async fn look(&self) {
        skip(Duration::from_secs(6)).await;
    }

    /// Waits until the records say something.
    pub async fn until(&self, mut says: impl AsyncFnMut(&Self) -> bool) {
        while !says(self).await {
            tokio::task::yield_now().await;
        }
    }
}

/// Moves the timers of the runtime forward without waiting.
pub async fn skip(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// The user of the machine.
pub fn user() -> Caller {
    Caller::operator("test")
}

async fn open(
    host: &FakeHost,
    clock: &Arc<FakeClock>,
    policy: &Arc<dyn CommandPolicy>,
    (network, packages): (&FakeNetwork, &FakePackages),
    settings: &EngineSettings,
) -> Result<Arc<Engine>, Failure> {
    let ports = Ports {
        host: Arc::new(host.clone()),
        records: Arc::clone(host.meta()) as _,
        clock: Arc::clone(clock) as _,
        policy: Arc::clone(policy),
        network: Arc::new(network.clone()),
        packages: Arc::new(packages.clone()),
    };
    Engine::open(ports, settings.clone()).await
}

/// An action whose caller does not know how it is reported.
pub fn silent() -> Arc<Silent> {
    Arc::new(Silent)
}
