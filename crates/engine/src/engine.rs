//! All workspaces of an installation, with all that is needed to let many clients at them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentiso_config::{Config, Isolation};
use agentiso_core::action::{State, WorkspaceStart};
use agentiso_core::progress::Silent;
use agentiso_core::{Failure, WorkspaceId};
use agentiso_meta::{Meta, Settings};
use agentiso_runtime::Installation;
use agentiso_runtime::guest::Guest;
use agentiso_runtime::workspaces::{WorkspaceView, Workspaces};
use tokio::sync::broadcast;
use tokio::task::{JoinHandle, JoinSet};

use crate::events::{EventKind, Events};
use crate::forwards::Forwards;
use crate::metrics::Metrics;
use crate::quota::Quotas;
use crate::rates::Rates;
use crate::rooms::Rooms;
use crate::sessions::Activity;
use crate::stats::Sampler;
use crate::timeline::Timeline;
use crate::upkeep::ITSELF;
use crate::{Caller, Event};

/// All workspaces of an installation, and the door to them.
pub struct Engine {
    pub(crate) workspaces: Workspaces,
    pub(crate) rooms: Rooms,
    pub(crate) rates: Rates,
    pub(crate) quota: Quotas,
    pub(crate) sessions: Activity,
    pub(crate) timeline: Timeline,
    pub(crate) events: Events,
    pub(crate) forwards: Forwards,
    pub(crate) sampler: Sampler,
    /// What is counted.
    pub metrics: Metrics,
    /// Merging disks and filling the pool.
    pub(crate) maintenance: Mutex<Option<JoinHandle<()>>>,
    began: Instant,
    installation: Installation,
}

/// What becomes of the machines when the daemon ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shutdown {
    /// They go on; the next daemon comes back to them.
    LeaveMachines,
    /// They are stopped, all at once, within so long.
    StopMachines(Duration),
}

/// How long a daemon that starts waits for machines that run.
const COMING_BACK: Duration = Duration::from_secs(5);

impl Engine {
    /// Opens an installation: comes back to the machines that run, and cleans up after a daemon that was killed.
    /// Ports in `own_ports` are ours and never forwarded.
    pub async fn open(installation: &Installation, own_ports: Vec<u16>) -> Result<Arc<Self>, Failure> {
        crate::clock::start(&installation.paths.home);
        let workspaces = Workspaces::open_to_stay(installation).await?;
        let meta = Arc::clone(workspaces.meta());
        meta.write(|tx| tx.drop_unsettled_keys())?;
        let engine = Arc::new(Self {
            rooms: Rooms::default(),
            rates: Rates::new(&installation.config.rate_limit),
            quota: Quotas::default(),
            sessions: Activity::default(),
            timeline: Timeline::start(Arc::clone(&meta)),
            events: Events::new(meta),
            forwards: Forwards::new(own_ports),
            sampler: Sampler::default(),
            metrics: Metrics::new(),
            maintenance: Mutex::default(),
            began: Instant::now(),
            installation: installation.clone(),
            workspaces,
        });
        engine.end_fleeting_sessions()?;
        engine.destroy_one_shots().await;
        engine.come_back().await?;
        engine.start_upkeep();
        engine.start_maintenance();
        Ok(engine)
    }

    /// Comes back to the machines that run, and opens the ports that lead into workspaces. One that does not answer,
    /// because the host's disk is full or for whatever reason, is not waited for long.
    async fn come_back(self: &Arc<Self>) -> Result<(), Failure> {
        let mut visits = JoinSet::new();
        for workspace in self.workspaces.list()? {
            let engine = Arc::clone(self);
            visits.spawn(async move { engine.come_back_to(&workspace).await });
        }
        let all = async { while visits.join_next().await.is_some() {} };
        if tokio::time::timeout(COMING_BACK, all).await.is_err() {
            tracing::warn!(left = visits.len(), "machines that do not answer yet");
            visits.detach_all();
        }
        Ok(())
    }

    async fn come_back_to(self: &Arc<Self>, workspace: &WorkspaceView) {
        let (id, running) = (workspace.id, workspace.state == State::Running);
        self.open_forwards(id).await;
        if running {
            match self.workspaces.guest(id).await {
                Ok(guest) => {
                    self.watch(id);
                    // What an older agent does not know it has none of.
                    let _ = self.env_of(id, Some(&guest)).await;
                }
                Err(failure) => {
                    tracing::warn!(name = %workspace.name, %failure, "a machine cannot be come back to");
                }
            }
        } else {
            // It may have ended while nobody watched.
            self.note_end(id, None).await;
            if let Err(failure) = self.forget_lost_variables(id) {
                tracing::warn!(name = %workspace.name, %failure, "names of its variables are still kept");
            }
        }
        if let Err(failure) = self.finish_suspending(id, running).await {
            tracing::warn!(name = %workspace.name, %failure, "what it was suspended to is still there");
        }
        if !running {
            self.restart(workspace);
        }
    }

    /// Starts a workspace that is to start with the host, in the background: the daemon answers meanwhile.
    fn restart(self: &Arc<Self>, workspace: &WorkspaceView) {
        let asked = self.meta().read(|read| read.settings(workspace.id));
        let due = asked.is_ok_and(|asked| asked.restart && !asked.stay_stopped && asked.suspended.is_none());
        if !due {
            return;
        }
        let (engine, name) = (Arc::clone(self), workspace.name.clone());
        let start = WorkspaceStart { workspace_id: workspace.id.to_string() };
        tokio::spawn(async move {
            let started = engine.act(&Caller::operator(ITSELF), start, Arc::new(Silent)).await;
            if let Err(failure) = started {
                tracing::warn!(%name, %failure, "a workspace could not be started with the host");
            }
        });
    }

    /// A daemon may have been killed while it suspended a workspace or brought it back.
    async fn finish_suspending(&self, id: WorkspaceId, running: bool) -> Result<(), Failure> {
        if running || self.meta().read(|read| read.settings(id))?.suspended.is_none() {
            self.forget_last_moment(id).await?;
        }
        Ok(())
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.installation.config
    }

    /// The installation.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// How long it has been open.
    pub fn uptime(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether a caller may be told of an event: of its own workspaces, and, unless sessions are isolated, of those
    /// that nobody owned.
    pub fn may_see(&self, caller: &Caller, event: &Event) -> bool {
        match (caller.session, event.owner) {
            (None, _) => true,
            (Some(session), Some(owner)) => session == owner,
            (Some(_), None) => !self.isolates(caller),
        }
    }

    /// Whether a caller sees and reaches only what it owns.
    pub fn isolates(&self, caller: &Caller) -> bool {
        !caller.is_operator() && self.config().sessions.isolation == Isolation::Strict
    }

    /// Watches what happens from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.watch()
    }

    /// How many workspaces are in which state.
    pub fn states(&self) -> Result<BTreeMap<String, usize>, Failure> {
        self.states_seen_by(None)
    }

    /// The same, of the workspaces that a caller sees.
    pub(crate) fn states_seen_by(&self, caller: Option<&Caller>) -> Result<BTreeMap<String, usize>, Failure> {
        let mut states = BTreeMap::new();
        for workspace in self.briefs(caller)? {
            *states.entry(workspace.state.to_string()).or_default() += 1;
        }
        Ok(states)
    }

    pub(crate) fn meta(&self) -> &Meta {
        self.workspaces.meta()
    }

    /// Changes what is kept about a workspace, in one step: others may change another part of it at the same time.
    pub(crate) fn change_settings(
        &self,
        id: WorkspaceId,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Settings, Failure> {
        Ok(self.meta().write(|tx| {
            let mut settings = tx.settings(id)?;
            change(&mut settings);
            tx.set_settings(id, &settings)?;
            Ok(settings)
        })?)
    }

    /// The way into a workspace. Waits while it is being changed as a whole.
    pub(crate) async fn guest(&self, id: WorkspaceId) -> Result<Guest, Failure> {
        let room = self.rooms.of(id);
        let _inside = room.enter().await;
        self.workspaces.guest(id).await
    }

    /// Ends the engine's own work.
    pub async fn shut_down(self: &Arc<Self>, how: Shutdown) {
        self.end_maintenance().await;
        self.destroy_one_shots().await;
        if let Shutdown::StopMachines(limit) = how {
            self.stop_all(limit).await;
        }
        // Without a daemon nobody can take them.
        if let Err(failure) = self.workspaces.empty_pool() {
            tracing::warn!(%failure, "machines of the pool could not be ended");
        }
        self.forwards.close_all();
        self.save_activity();
        self.timeline.flush().await;
    }

    async fn stop_all(self: &Arc<Self>, limit: Duration) {
        let mut stops = JoinSet::new();
        for workspace in self.workspaces.list().unwrap_or_default() {
            let engine = Arc::clone(self);
            if workspace.state == State::Running {
                stops.spawn(async move {
                    let room = engine.rooms.of(workspace.id);
                    let _turn = room.change().await;
                    match engine.workspaces.stop(workspace.id, false, Some(limit)).await {
                        Ok(_) => engine.events.tell(
                            EventKind::Stopped,
                            workspace.id,
                            &workspace.name.to_string(),
                            None,
                        ),
                        Err(failure) => {
                            tracing::warn!(name = %workspace.name, %failure, "could not be stopped")
                        }
                    }
                });
            }
        }
        while stops.join_next().await.is_some() {}
    }
}
