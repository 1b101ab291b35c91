//! Opening the workspaces of an installation.

use std::sync::Arc;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_meta::{Meta, Workspace};

use super::abandoned::Abandoned;
use super::held::Held;
use super::lock::WorkspaceLock;
use super::machine::MachineState;
use super::pool_upkeep::PoolRest;
use super::shapes::Demand;
use super::turns::Turns;
use crate::Installation;
use crate::disk_store::DisksInUse;

/// How long a command waits for another one on the same workspace.
const PATIENCE: Duration = Duration::from_secs(10);

/// All workspaces of an installation.
#[derive(Clone)]
pub struct Workspaces {
    pub(crate) installation: Installation,
    pub(crate) meta: Arc<Meta>,
    pub(crate) held: Arc<Held>,
    pub(super) abandoned: Abandoned,
    pub(super) turns: Turns,
    pub(super) demand: Demand,
    pub(super) pool_rest: PoolRest,
}

impl Workspaces {
    /// Opens them, and cleans up after commands that were killed.
    pub async fn open(installation: &Installation) -> Result<Self, Failure> {
        Self::open_holding(installation, Held::none()).await
    }

    /// Opens them to stay: machines that were come back to once are kept.
    pub async fn open_to_stay(installation: &Installation) -> Result<Self, Failure> {
        let workspaces = Self::open_holding(installation, Held::all()).await?;
        installation.sweep_disks();
        installation.keep_reserve();
        if !workspaces.meta.read(|read| read.pool())?.is_empty() {
            // A daemon that was killed had them ready for somebody, who is likely to come back.
            workspaces.expect_creates();
            // What they were made for may have changed since: the first look is a thorough one.
            workspaces.leave_for_later()?;
        }
        Ok(workspaces)
    }

    async fn open_holding(installation: &Installation, held: Held) -> Result<Self, Failure> {
        installation.open_disks()?;
        let meta = Meta::open(&installation.paths.state_file())?;
        let (meta, held) = (Arc::new(meta), Arc::new(held));
        let abandoned = Abandoned::default();
        let turns = Turns::of_host();
        let (demand, pool_rest) = (Demand::default(), PoolRest::default());
        let installation = installation.clone();
        let workspaces = Self { installation, meta, held, abandoned, turns, demand, pool_rest };
        // Before anything is swept: a database that does not fit the disks must not cost one of them.
        workspaces.meet_files()?;
        workspaces.recover().await?;
        workspaces.write_records();
        workspaces.own_disks()?;
        workspaces.sweep_groups()?;
        Ok(workspaces)
    }

    /// The installation the workspaces belong to.
    pub fn installation(&self) -> &Installation {
        &self.installation
    }

    /// The state of the installation.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// Locks a workspace against every other command, and returns it as it is once the lock is held.
    pub(crate) async fn lock(&self, id: WorkspaceId) -> Result<(Workspace, WorkspaceLock), Failure> {
        // An id that is unknown must not leave a lock file behind.
        self.meta.read(|read| read.workspace(id))?;
        let lock = self.lock_id(id).await?;
        self.recover_locked(id).await?;
        // It may have changed, or been removed, while this waited for the lock.
        let workspace = self.meta.read(|read| read.workspace(id))?;
        Ok((workspace, lock))
    }

    pub(crate) async fn lock_id(&self, id: WorkspaceId) -> Result<WorkspaceLock, Failure> {
        let dir = self.installation.paths.workspaces_dir();
        let taken = WorkspaceLock::take(&dir, id, PATIENCE).await;
        taken.map_err(|error| self.installation.io("lock the workspace", error))?.ok_or_else(|| {
            let message =
                format!("another command has been at work on the workspace for {} s", PATIENCE.as_secs());
            Failure::new(Code::WorkspaceBusy, message)
                .with_remedy("wait for it to end, or end it, and try again")
        })
    }

    /// Keeps anyone from removing disks that only we know of yet.
    pub(crate) fn use_disks(&self) -> Result<DisksInUse, Failure> {
        in_place(|| self.installation.use_disks())
    }

    /// The machine of a workspace, as the database has it.
    pub(crate) fn machine_of(&self, workspace: &Workspace) -> Result<Option<MachineState>, Failure> {
        workspace.machine().map(MachineState::from_value).transpose()
    }

    /// Removes groups of machines that have ended, but not of those whose end nobody has noted: it is read there.
    fn sweep_groups(&self) -> Result<(), Failure> {
        if let Some(confinement) = self.installation.confinement() {
            let known = self.known_machines()?.into_iter().filter_map(|machine| machine.record.group);
            confinement.sweep(&known.collect::<Vec<_>>());
        }
        Ok(())
    }
}
