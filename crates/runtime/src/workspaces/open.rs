//! Opening the workspaces of an installation.

use std::sync::Arc;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_meta::{Meta, Workspace};

use super::abandoned::Abandoned;
use super::connections::Connections;
use super::lock::WorkspaceLock;
use super::machine::MachineState;
use super::network_upkeep::Upkeep;
use super::pool_upkeep::PoolRest;
use super::shapes::Demand;
use super::turns::Turns;
use crate::Installation;
use crate::disk_store::DisksInUse;
use crate::network::{Net, RouterLauncher};

/// How long an operation waits for another one on the same workspace.
const PATIENCE: Duration = Duration::from_secs(10);

/// All workspaces of an installation.
#[derive(Clone)]
pub struct Workspaces {
    pub(crate) installation: Installation,
    pub(crate) meta: Arc<Meta>,
    pub(crate) connections: Arc<Connections>,
    pub(super) abandoned: Abandoned,
    pub(super) turns: Turns,
    pub(super) demand: Demand,
    pub(super) pool_rest: PoolRest,
    pub(crate) net: Arc<Net>,
    /// Only where the network is kept up: in a daemon.
    pub(super) _upkeep: Option<Arc<Upkeep>>,
}

impl Workspaces {
    /// Opens them and recovers from processes that were killed. Machines are disconnected after each operation.
    pub async fn open(installation: &Installation) -> Result<Self, Failure> {
        Self::open_with(installation, Connections::none(), installation.router_process()?).await
    }

    /// Opens them for a daemon: connections to machines are kept open.
    pub async fn open_to_stay(installation: &Installation) -> Result<Self, Failure> {
        let launcher = installation.router_process()?;
        let workspaces = Self::open_with(installation, Connections::all(), launcher).await?;
        installation.sweep_disks();
        installation.keep_reserve();
        // Most daemons are started by a command, whose request comes next.
        workspaces.demand.begin_use();
        if !workspaces.meta.read(|read| read.pool())?.is_empty() {
            // A daemon that was killed kept them ready for clients, who are likely to reconnect.
            workspaces.expect_creates();
            // The configuration may have changed since, so let the maintenance check them.
            workspaces.leave_for_later()?;
        }
        Ok(workspaces.keeping_network())
    }

    /// Opens them with another way to start the router of their network.
    pub async fn open_with_router(
        installation: &Installation,
        launcher: Arc<dyn RouterLauncher>,
    ) -> Result<Self, Failure> {
        let workspaces = Self::open_with(installation, Connections::all(), launcher).await?;
        Ok(workspaces.keeping_network())
    }

    async fn open_with(
        installation: &Installation,
        connections: Connections,
        launcher: Arc<dyn RouterLauncher>,
    ) -> Result<Self, Failure> {
        let meta = in_place(|| {
            installation.open_disks()?;
            Ok::<_, Failure>(Meta::open(&installation.paths.state_file())?)
        })?;
        let (meta, connections) = (Arc::new(meta), Arc::new(connections));
        let abandoned = Abandoned::default();
        let turns = Turns::of_host();
        let (demand, pool_rest) = (Demand::default(), PoolRest::default());
        let installation = installation.clone();
        let net = Arc::new(Net::new(&installation.paths, &installation.config.network, launcher)?);
        let workspaces =
            Self { installation, meta, connections, abandoned, turns, demand, pool_rest, net, _upkeep: None };
        // Before anything is removed: a database that does not match the disks does not know all of them.
        in_place(|| workspaces.match_files())?;
        workspaces.recover().await?;
        workspaces.write_records();
        in_place(|| workspaces.own_disks())?;
        in_place(|| workspaces.sweep_groups())?;
        Ok(workspaces)
    }

    /// The installation of the workspaces.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The database of the installation.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// Locks a workspace, recovers it if necessary, and returns it as it is then.
    pub(crate) async fn lock(&self, id: WorkspaceId) -> Result<(Workspace, WorkspaceLock), Failure> {
        // An unknown id must not leave a lock file behind.
        self.meta.read(|read| read.workspace(id))?;
        let lock = self.lock_id(id).await?;
        self.recover_locked(id).await?;
        // It may have changed or been removed while this waited for the lock.
        let workspace = self.meta.read(|read| read.workspace(id))?;
        Ok((workspace, lock))
    }

    pub(crate) async fn lock_id(&self, id: WorkspaceId) -> Result<WorkspaceLock, Failure> {
        let dir = self.installation.paths.workspaces_dir();
        let taken = WorkspaceLock::take(&dir, id, PATIENCE).await;
        taken.map_err(|error| self.installation.io("lock the workspace", error))?.ok_or_else(|| {
            let message =
                format!("another operation has had the workspace locked for {} s", PATIENCE.as_secs());
            Failure::new(Code::WorkspaceBusy, message)
                .with_remedy("wait for it to finish, or stop it, and try again")
        })
    }

    /// Keeps unreferenced disks from being removed while an operation creates some.
    pub(crate) fn use_disks(&self) -> Result<DisksInUse, Failure> {
        in_place(|| self.installation.use_disks())
    }

    /// The recorded machine of a workspace; `None` if it is stopped.
    pub(crate) fn machine_of(&self, workspace: &Workspace) -> Result<Option<MachineState>, Failure> {
        workspace.machine().map(MachineState::from_value).transpose()
    }

    /// Removes the cgroups of machines that have ended. Those of recorded machines stay: the reason why a machine ended is
    /// read from its cgroup.
    fn sweep_groups(&self) -> Result<(), Failure> {
        if let Some(confinement) = self.installation.confinement() {
            let known = self.known_machines()?.into_iter().filter_map(|machine| machine.record.group);
            confinement.sweep(&known.collect::<Vec<_>>());
        }
        Ok(())
    }
}
