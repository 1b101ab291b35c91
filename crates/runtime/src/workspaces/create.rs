//! Creating a workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::progress::Progress;
use agentiso_core::{DiskId, Failure, NetworkState, SessionId, WorkspaceId, WorkspaceName};
use agentiso_meta::{MetaError, Tx, Workspace, WorkspaceState};
use agentiso_policy::egress::Policy;
use agentiso_vmm::Machine;
use jiff::Timestamp;
use uuid::Uuid;

use super::base::insert_disk;
use super::intent::{Intent, MachineDirName};
use super::machine::MachineState;
use super::views::view_of;
use super::{CreateRequest, WorkspaceView, Workspaces};
use crate::start::{Identity, OnWake, PendingStart, StartDisk, Tier, image_identity};

impl Workspaces {
    /// Creates a workspace and starts it. On failure nothing of it is left.
    pub async fn create(
        &self,
        request: &CreateRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<WorkspaceView, Failure> {
        request.resources.check(&self.installation.config.limits)?;
        Policy::check(&request.network)?;
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        if let Some(name) = &request.name {
            self.require_free_name(name)?;
        }
        let image = self.installation.image(&request.image)?;
        let with = self.installation.ingredients(&image, &request.resources, progress).await?;
        if request.pool
            && !request.cold
            && let Some(taken) = self.take_from_pool(request, &image, &with).await?
        {
            return Ok(taken);
        }
        let name = request.name.clone().map_or_else(|| made_up_name(id), Ok)?;
        let _disks = self.use_disks()?;
        let disk = DiskId::from_uuid(Uuid::now_v7());
        let dir_name = MachineDirName::new(id);
        let intent = Intent { disks: vec![disk], machine_dirs: vec![dir_name], ..Intent::default() };
        let addresses = usize::from(!request.network.is_off());
        let (undertaking, addresses) =
            self.undertake_with_addresses("create", Some(id), intent, addresses)?;
        let network = NetworkState { rules: request.network.clone(), address: addresses.first().copied() };
        let pending = self.pending_start(dir_name, disk, StartDisk::Fresh, &with.host)?;
        let identity = Identity { id, hostname: name.to_string() };
        let ready = async {
            let started = self.installation.start_in(&with, &pending, request.cold, progress).await?;
            identity.give_to(&started.machine, OnWake::Start).await?;
            if let Some(bytes) = started.disk_bytes {
                started.machine.announce_disk_size(bytes).await?;
            }
            let proxy = self.configure_card(id, &started.machine, &network).await?;
            Ok((started, proxy))
        };
        let ((started, proxy), attached) = self.attach_while(id, &network, ready).await?;
        let wired = self.plug(id, &started.machine, &network.rules, proxy, attached).await?;
        let mut machine = self.lasting(&started.machine, dir_name, with.restore_key())?;
        machine.card = wired.as_ref().map(|wired| wired.card.clone());
        let workspace = Workspace {
            id,
            name,
            image: request.image.clone(),
            image_identity: image_identity(&image),
            resources: request.resources,
            created: now(),
            state: WorkspaceState::Running { machine: machine.to_value()? },
            disk,
            position: None,
            lineage: None,
            from_pool: false,
            tier: tier_name(started.tier),
            network,
        };
        let parent = self.parent_of(disk)?;
        let write_down = |tx: &Tx<'_>| {
            insert_disk(tx, disk, parent)?;
            insert_created(tx, &workspace, request)
        };
        if request.cold || started.tier == Tier::WarmTemplate {
            undertaking.finish(write_down)?;
        } else {
            // A faster start may have failed before, and left what it pinned.
            undertaking.finish_in_part(write_down)?;
        }
        if let Some(wired) = wired {
            wired.keep();
        }
        self.connections.leave(id, started.machine);
        Ok(view_of(&workspace, Some(&machine)))
    }

    /// Fails early if a name is taken. The database enforces it.
    pub(crate) fn require_free_name(&self, name: &WorkspaceName) -> Result<(), Failure> {
        let taken = self.meta.read(|read| read.workspaces())?;
        if taken.iter().any(|workspace| workspace.name == *name) {
            return Err(agentiso_meta::MetaError::WorkspaceExists { name: name.to_string() }.into());
        }
        Ok(())
    }

    /// Creates the directory of a lasting machine, and prepares its start.
    pub(crate) fn pending_start(
        &self,
        name: MachineDirName,
        disk: DiskId,
        disk_is: StartDisk,
        host: &agentiso_vmm::Host,
    ) -> Result<PendingStart, Failure> {
        let user = host.user()?;
        let dir = name.create(&self.installation.paths.workspaces_dir(), user.as_ref());
        let dir = dir.map_err(|error| self.installation.io("create the machine's directory", error))?;
        let disk = self.installation.disk_path(disk);
        Ok(PendingStart { dir, user, disk, disk_is, lasting: true, spare_port: false })
    }

    /// What to store about a machine, to reconnect to it later.
    pub(crate) fn lasting(
        &self,
        machine: &Machine,
        dir: MachineDirName,
        restore_key: String,
    ) -> Result<MachineState, Failure> {
        Ok(MachineState { record: machine.record()?, dir, restore_key, card: None })
    }
}

/// How long a machine may take to power off.
pub(crate) fn stop_limit(workspaces: &Workspaces) -> Duration {
    workspaces.installation.config.vm.stop_timeout()
}

/// A name made from the id, which is new and therefore free.
pub(crate) fn made_up_name(id: WorkspaceId) -> Result<WorkspaceName, Failure> {
    Ok(format!("ws-{}", id.short()).parse()?)
}

/// The current time, in the precision of the database.
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

/// A tier as it is stored.
pub(crate) fn tier_name(tier: Tier) -> String {
    tier.as_str().to_owned()
}

/// Adds a workspace as it was requested.
pub(super) fn insert_created(
    tx: &Tx<'_>,
    workspace: &Workspace,
    request: &CreateRequest,
) -> Result<(), MetaError> {
    insert_owned(tx, workspace, request.owner)?;
    if request.one_shot { tx.mark_one_shot(workspace.id) } else { Ok(()) }
}

/// Adds a workspace together with its owner, so that no other session can see it without one.
pub(super) fn insert_owned(
    tx: &Tx<'_>,
    workspace: &Workspace,
    owner: Option<SessionId>,
) -> Result<(), MetaError> {
    tx.insert_workspace(workspace)?;
    owner.map_or(Ok(()), |owner| tx.set_owner(workspace.id, Some(owner)))
}
