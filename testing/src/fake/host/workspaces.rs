//! Creating, starting, stopping, changing and removing workspaces.

use std::sync::{Arc, Mutex};

use agentiso_core::ports::host::{CreateRequest, MachineEnded, RemoveRequest, WorkspaceView};
use agentiso_core::{Code, Failure, NetworkState, Resources, SessionId, WorkspaceId, WorkspaceName};
use agentiso_meta::{MetaError, Tx, Workspace};
use agentiso_policy::egress::Policy;
use uuid::Uuid;

use super::network::network_of;
use super::state::{FakeHost, StoredDisk, insert_disk, new_disk, not_running, now, state_of};
use crate::fake::machine::locked;
use crate::fake::memory::{Memory, set_hostname};

impl FakeHost {
    pub(super) async fn create_workspace(&self, request: &CreateRequest) -> Result<WorkspaceView, Failure> {
        request.resources.check(&self.inner.limits)?;
        Policy::check(&request.network)?;
        if let Some(name) = &request.name {
            self.require_free_name(name)?;
        }
        let mut files = self.stored_image(&request.image)?.files;
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let name = request.name.clone().map_or_else(|| format!("ws-{}", id.short()).parse(), Ok)?;
        let from_pool = request.pool && !request.cold && locked(&self.inner.pool).ready > 0;
        let tier = match (request.cold, from_pool) {
            (true, _) => "cold",
            (_, true) => "pool",
            _ => "warm_template",
        };
        set_hostname(&mut files, name.as_str());
        let files = Arc::new(Mutex::new(files));
        let memory = Memory::of_host(name.as_str());
        let machine = self.machine(Arc::clone(&files), memory);
        let disk = new_disk();
        let mut workspace = Workspace {
            id,
            name,
            image: request.image.clone(),
            image_identity: "blake3:fake".to_owned(),
            resources: request.resources,
            created: now(),
            state: state_of(&machine),
            disk,
            position: None,
            lineage: None,
            from_pool,
            tier: tier.to_owned(),
            network: NetworkState::default(),
        };
        let recorded = self.inner.meta.write(|tx| {
            insert_disk(tx, disk, None)?;
            workspace.network = network_of(tx, &request.network)?;
            insert_owned(tx, &workspace, request.owner)?;
            if request.one_shot { tx.mark_one_shot(id) } else { Ok(()) }
        });
        if let Err(error) = recorded {
            machine.end("it was not recorded");
            return Err(error.into());
        }
        locked(&self.inner.disks).insert(disk, StoredDisk { files, gb: request.resources.disk_gb });
        locked(&self.inner.machines).insert(id, machine);
        if from_pool {
            let mut pool = locked(&self.inner.pool);
            pool.ready = pool.ready.saturating_sub(1);
        }
        Ok(self.view_of(&workspace, None))
    }

    pub(super) fn require_free_name(&self, name: &WorkspaceName) -> Result<(), Failure> {
        let taken = self.inner.meta.read(|read| read.workspaces())?;
        if taken.iter().any(|workspace| workspace.name == *name) {
            return Err(MetaError::WorkspaceExists { name: name.to_string() }.into());
        }
        Ok(())
    }

    pub(super) async fn start_workspace(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure> {
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        if self.reach(&workspace)?.is_some() {
            return self.view(id);
        }
        self.stored_image(&workspace.image)?;
        let files = self.disk(workspace.disk)?.files;
        set_hostname(&mut locked(&files), workspace.name.as_str());
        let memory = Memory::of_host(workspace.name.as_str());
        let machine = self.machine(files, memory);
        let recorded = self.inner.meta.write(|tx| {
            tx.set_running(id, &serde_json::json!({ "pid": machine.pid }))?;
            tx.set_tier(id, "template")?;
            tx.workspace(id)
        });
        let workspace = match recorded {
            Ok(workspace) => workspace,
            Err(error) => {
                machine.end("it was not recorded");
                return Err(error.into());
            }
        };
        locked(&self.inner.machines).insert(id, machine);
        Ok(self.view_of(&workspace, None))
    }

    pub(super) async fn stop_workspace(&self, id: WorkspaceId, force: bool) -> Result<bool, Failure> {
        if force {
            self.end_machine(id)?;
        }
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        if workspace.machine().is_none() {
            return Ok(true);
        }
        if !force && self.reach(&workspace)?.is_none() {
            return Ok(true);
        }
        if let Some(machine) = locked(&self.inner.machines).remove(&id) {
            machine.end("it was stopped");
        }
        let reason = force.then_some("it was switched off");
        self.inner.meta.write(|tx| tx.set_stopped(id, reason))?;
        Ok(!force)
    }

    /// Ends the machine of a workspace. Returns whether there was one.
    pub(super) fn end_machine(&self, id: WorkspaceId) -> Result<bool, Failure> {
        self.workspace(id)?;
        let machine = self.running(id);
        if let Some(machine) = &machine {
            machine.end("it was switched off");
        }
        Ok(machine.is_some())
    }

    pub(super) async fn remove_workspace(&self, request: &RemoveRequest) -> Result<(), Failure> {
        let id = request.workspace;
        if request.force {
            self.end_machine(id)?;
        }
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        if self.running(id).is_some() && !request.force {
            let message = format!("the workspace {:?} is running", workspace.name.as_str());
            return Err(
                Failure::new(Code::WorkspaceRunning, message).with_remedy("stop it first, or force it")
            );
        }
        self.inner.meta.write(|tx| tx.remove_workspace(id))?;
        if let Some(machine) = locked(&self.inner.machines).remove(&id) {
            machine.end("its workspace was removed");
        }
        self.remove_unneeded()
    }

    pub(super) async fn rename_workspace(
        &self,
        id: WorkspaceId,
        name: &WorkspaceName,
    ) -> Result<WorkspaceView, Failure> {
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        if workspace.name != *name {
            self.require_free_name(name)?;
            let workspace = self.inner.meta.write(|tx| {
                tx.rename_workspace(id, name)?;
                tx.workspace(id)
            })?;
            if let Some(machine) = self.running(id) {
                machine.look(|memory| memory.hostname = name.to_string());
            }
            return Ok(self.view_of(&workspace, None));
        }
        self.view(id)
    }

    pub(super) async fn grow_workspace(
        &self,
        id: WorkspaceId,
        disk_gb: u32,
    ) -> Result<WorkspaceView, Failure> {
        let _turn = self.turn(id).await;
        let workspace = self.workspace(id)?;
        if self.reach(&workspace)?.is_none() {
            return Err(not_running(&workspace));
        }
        Resources { disk_gb, ..workspace.resources }.check(&self.inner.limits)?;
        if disk_gb < workspace.resources.disk_gb {
            return Err(Failure::new(Code::InvalidArgument, "a disk cannot shrink"));
        }
        let workspace = self.inner.meta.write(|tx| {
            tx.set_disk_gb(id, disk_gb)?;
            tx.workspace(id)
        })?;
        if let Some(disk) = locked(&self.inner.disks).get_mut(&workspace.disk) {
            disk.gb = disk_gb;
        }
        Ok(self.view_of(&workspace, None))
    }

    pub(super) async fn note_end(
        &self,
        id: WorkspaceId,
        pid: Option<u32>,
    ) -> Result<Option<MachineEnded>, Failure> {
        let _turn = self.turn(id).await;
        let Some(workspace) = self.inner.meta.read(|read| read.workspace_if_known(id))? else {
            return Ok(None);
        };
        let recorded = workspace.machine().and_then(|machine| machine["pid"].as_u64());
        let is_meant = pid.is_none_or(|pid| recorded == Some(pid.into()));
        if recorded.is_none() || !is_meant || self.running(id).is_some() {
            return Ok(None);
        }
        let reason = self.last_words(id);
        self.reach(&workspace)?;
        Ok(Some(MachineEnded { workspace, reason }))
    }
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
