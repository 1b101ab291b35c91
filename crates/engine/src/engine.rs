//! The engine: its ports, its shared state, and how it starts and ends.
//!
//! ```text
//!  open ──► reconnect to running machines ──► serving ──► shut down: background work ended, activity stored
//!               │ (at most RECONNECT_LIMIT)
//!               └──► machines that have not answered are reconnected to in the background
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentiso_core::action::{State, WorkspaceStart};
use agentiso_core::ports::host::{WorkspaceHost, WorkspaceView};
use agentiso_core::ports::link::Link;
use agentiso_core::ports::network::Network;
use agentiso_core::ports::packages::PackageSources;
use agentiso_core::ports::records::{Records, Settings};
use agentiso_core::ports::{Clock, CommandPolicy};
use agentiso_core::progress::Silent;
use agentiso_core::{EngineSettings, Failure, Isolation, WorkspaceId};
use tokio::task::{JoinHandle, JoinSet};

use crate::Caller;
use crate::approvals::Approvals;
use crate::events::{EventKind, Events};
use crate::forwards::Forwards;
use crate::idempotency::PendingKeys;
use crate::live_state::LiveStates;
use crate::metrics::Metrics;
use crate::network::{Refusals, Summaries};
use crate::quota::Quotas;
use crate::rates::Rates;
use crate::sessions::Activity;
use crate::stats::Sampler;
use crate::timeline::Timeline;
use crate::upkeep::DAEMON;

/// Carries out the actions of all clients on the workspaces of one host.
pub struct Engine {
    pub(crate) host: Arc<dyn WorkspaceHost>,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) policy: Arc<dyn CommandPolicy>,
    pub(crate) network: Arc<dyn Network>,
    pub(crate) packages: Arc<dyn PackageSources>,
    pub(crate) settings: EngineSettings,
    pub(crate) live: LiveStates,
    pub(crate) rates: Rates,
    pub(crate) quota: Quotas,
    pub(crate) pending_keys: PendingKeys,
    pub(crate) sessions: Activity,
    pub(crate) timeline: Timeline,
    pub(crate) events: Events,
    pub(crate) forwards: Forwards,
    pub(crate) approvals: Approvals,
    pub(crate) refusals: Refusals,
    pub(crate) summaries: Summaries,
    pub(crate) sampler: Sampler,
    /// Counters of calls.
    pub metrics: Metrics,
    /// The task that merges disks and fills the pool.
    pub(crate) maintenance: Mutex<Option<JoinHandle<()>>>,
    began: Instant,
}

/// Everything the engine uses that is not its own.
pub struct Ports {
    /// Where workspaces live.
    pub host: Arc<dyn WorkspaceHost>,
    /// What outlives the daemon.
    pub records: Arc<dyn Records>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Rules on commands before they start.
    pub policy: Arc<dyn CommandPolicy>,
    /// The network of workspaces.
    pub network: Arc<dyn Network>,
    /// The package managers of the host.
    pub packages: Arc<dyn PackageSources>,
}

/// What happens to the machines when the daemon ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shutdown {
    /// They keep running; the next daemon reconnects to them.
    LeaveMachines,
    /// They are stopped, all at once, within this time.
    StopMachines(Duration),
}

/// How long a daemon that starts waits for running machines to answer.
const RECONNECT_LIMIT: Duration = Duration::from_secs(5);

impl Engine {
    /// Starts the engine of a host: reconnects to the machines that run, and cleans up after a daemon that was killed.
    pub async fn open(ports: Ports, settings: EngineSettings) -> Result<Arc<Self>, Failure> {
        let Ports { host, records, clock, policy, network, packages } = ports;
        records.drop_unsettled_keys().await?;
        let engine = Arc::new(Self {
            live: LiveStates::new(Arc::clone(&clock)),
            rates: Rates::new(&settings.rates),
            quota: Quotas::default(),
            pending_keys: PendingKeys::default(),
            sessions: Activity::new(Arc::clone(&clock)),
            timeline: Timeline::start(Arc::clone(&records)).await?,
            events: Events::new(Arc::clone(&records)),
            forwards: Forwards::new(settings.own_ports.clone()),
            approvals: Approvals::default(),
            refusals: Refusals::default(),
            summaries: Summaries::default(),
            sampler: Sampler::default(),
            metrics: Metrics::new(),
            maintenance: Mutex::default(),
            began: Instant::now(),
            host,
            records,
            clock,
            policy,
            network,
            packages,
            settings,
        });
        engine.end_fleeting_sessions().await?;
        engine.destroy_one_shots().await;
        engine.reconnect().await?;
        engine.start_upkeep();
        engine.start_maintenance();
        engine.follow_network();
        Ok(engine)
    }

    /// Reconnects to the machines that run, and opens the forwarded ports. A machine that does not answer, for example
    /// because the host's disk is full, delays the start only briefly.
    async fn reconnect(self: &Arc<Self>) -> Result<(), Failure> {
        let mut visits = JoinSet::new();
        for workspace in self.host.list().await? {
            let engine = Arc::clone(self);
            visits.spawn(async move { engine.reconnect_to(&workspace).await });
        }
        let all = async { while visits.join_next().await.is_some() {} };
        if tokio::time::timeout(RECONNECT_LIMIT, all).await.is_err() {
            tracing::warn!(left = visits.len(), "some machines have not answered yet");
            visits.detach_all();
        }
        Ok(())
    }

    async fn reconnect_to(self: &Arc<Self>, workspace: &WorkspaceView) {
        let (id, running) = (workspace.id, workspace.state == State::Running);
        self.open_forwards(id).await;
        if running {
            match self.host.link(id).await {
                Ok(guest) => {
                    self.watch(id).await;
                    // Older agents do not support variables.
                    let _ = self.env_of(id, Some(&guest)).await;
                }
                Err(failure) => {
                    tracing::warn!(name = %workspace.name, %failure, "could not reconnect to a machine");
                }
            }
        } else {
            // It may have ended while no daemon was running.
            self.note_end(id, None).await;
            if let Err(failure) = self.forget_lost_variables(id).await {
                tracing::warn!(name = %workspace.name, %failure, "could not forget the names of lost variables");
            }
        }
        if let Err(failure) = self.finish_suspending(id, running).await {
            tracing::warn!(name = %workspace.name, %failure, "could not remove the snapshot of an earlier suspension");
        }
        if !running {
            self.restart(workspace).await;
        }
    }

    /// Starts a workspace that starts with the daemon, in the background: the daemon already serves clients meanwhile.
    async fn restart(self: &Arc<Self>, workspace: &WorkspaceView) {
        let settings = self.records.settings(workspace.id).await;
        let due = settings.is_ok_and(|one| one.restart && !one.stay_stopped && one.suspended.is_none());
        if !due {
            return;
        }
        let (engine, name) = (Arc::clone(self), workspace.name.clone());
        let start = WorkspaceStart { workspace_id: workspace.id.to_string() };
        tokio::spawn(async move {
            let started = engine.act(&Caller::operator(DAEMON), start, Arc::new(Silent)).await;
            if let Err(failure) = started {
                tracing::warn!(%name, %failure, "could not start a workspace with the daemon");
            }
        });
    }

    /// Completes a suspension or a resumption that a killed daemon left half done.
    async fn finish_suspending(&self, id: WorkspaceId, running: bool) -> Result<(), Failure> {
        if running || self.records.settings(id).await?.suspended.is_none() {
            self.forget_last_moment(id).await?;
        }
        Ok(())
    }

    /// The settings it was opened with.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// How long it has been open.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether a caller sees and reaches only what it owns.
    pub fn isolates(&self, caller: &Caller) -> bool {
        !caller.is_operator() && self.settings.isolation == Isolation::Strict
    }

    /// The number of workspaces in each state.
    pub async fn states(&self) -> Result<BTreeMap<String, usize>, Failure> {
        self.states_seen_by(None).await
    }

    /// The number of workspaces in each state, of those that a caller sees.
    pub(crate) async fn states_seen_by(
        &self,
        caller: Option<&Caller>,
    ) -> Result<BTreeMap<String, usize>, Failure> {
        let mut states = BTreeMap::new();
        for workspace in self.briefs(caller).await? {
            *states.entry(workspace.state.to_string()).or_default() += 1;
        }
        Ok(states)
    }

    /// Changes the settings of a workspace in one transaction: others may change other parts of them at the same time.
    pub(crate) async fn change_settings(
        &self,
        id: WorkspaceId,
        change: impl FnOnce(&mut Settings) + Send + 'static,
    ) -> Result<Settings, Failure> {
        self.records.change_settings(id, Box::new(change)).await
    }

    /// The link into a workspace. Waits while the workspace is being changed as a whole.
    pub(crate) async fn guest(&self, id: WorkspaceId) -> Result<Link, Failure> {
        let live = self.live.of(id);
        let _inside = live.lock_shared().await;
        self.host.link(id).await
    }

    /// Ends the engine's own work.
    pub async fn shut_down(self: &Arc<Self>, how: Shutdown) {
        self.end_maintenance().await;
        self.destroy_one_shots().await;
        if let Shutdown::StopMachines(limit) = how {
            self.stop_all(limit).await;
        }
        // Without a daemon nothing can take machines from the pool.
        if let Err(failure) = self.host.empty_pool().await {
            tracing::warn!(%failure, "could not end the machines of the pool");
        }
        self.forwards.close_all();
        self.save_activity().await;
        self.end_pending_keys().await;
        self.timeline.flush().await;
    }

    async fn stop_all(self: &Arc<Self>, limit: Duration) {
        let workspaces = match self.host.list().await {
            Ok(workspaces) => workspaces,
            Err(failure) => return tracing::warn!(%failure, "could not list the workspaces to stop"),
        };
        let mut stops = JoinSet::new();
        for workspace in workspaces.into_iter().filter(|one| one.state == State::Running) {
            let engine = Arc::clone(self);
            stops.spawn(async move {
                let live = engine.live.of(workspace.id);
                let _lock = live.lock_exclusive().await;
                match engine.host.stop(workspace.id, false, Some(limit)).await {
                    Ok(_) => {
                        let (id, name) = (workspace.id, workspace.name.as_str());
                        engine.events.tell(EventKind::Stopped, id, name, None).await;
                    }
                    Err(failure) => {
                        tracing::warn!(name = %workspace.name, %failure, "could not stop a workspace");
                    }
                }
            });
        }
        while stops.join_next().await.is_some() {}
    }
}
