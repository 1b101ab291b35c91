//! Machines that are ready before anyone asks for them.
//!
//! A machine in the pool has its image mounted, has run commands, and stands still. A create that asks for exactly
//! what it is gets it, wakes it and gives it an identity.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, DiskId, Failure, ImageName, Resources, WorkspaceId, WorkspaceName};
use agentiso_images::store::Image;
use agentiso_meta::{MetaError, OperationId, PoolMachine, Workspace, WorkspaceState};
use agentiso_proto::Exec;
use agentiso_vmm::{Machine, VmError};
use serde_json::json;
use uuid::Uuid;

use super::base::insert_disk;
use super::create::{insert_created, made_up_name, now, tier_name};
use super::intent::{BerthName, Intent};
use super::machine::MachineState;
use super::undertaking::Undertaking;
use super::views::view_of;
use super::{CreateRequest, WorkspaceView, Workspaces};
use crate::start::{BerthDisk, Identity, Ingredients, OnWake, Tier, image_identity};

/// Commands a machine runs before it waits: what comes first in a workspace is then translated and in memory.
const REHEARSAL: [&[&str]; 4] = [
    &["/bin/true"],
    &["/bin/echo", "ready"],
    &["/bin/sh", "-c", "cd /; pwd; id; uname -a; ls -l; cat /etc/os-release; test -e /root && echo ready"],
    &[
        BASH,
        "-c",
        "cd /; pwd; ls -l | head -n 3; for word in a b; do echo \"$word\"; done; [[ -e /root ]] && echo ready",
    ],
];
/// The shell that runs the command lines of agents, where the image has it.
const BASH: &str = "/bin/bash";
/// Some paths are only taken by what is not the first of its kind.
const REHEARSALS: usize = 2;
/// How often a machine that turns out to be gone is replaced by the next one.
const TRIES: usize = 4;

/// What the pool keeps ready.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolShape {
    /// The image.
    pub image: ImageName,
    /// The size.
    pub resources: Resources,
}

impl Workspaces {
    /// Takes a ready machine that is exactly what is asked for. `None` if there is none.
    pub(super) async fn take_from_pool(
        &self,
        request: &CreateRequest,
        image: &Image,
        with: &Ingredients,
    ) -> Result<Option<WorkspaceView>, Failure> {
        self.remember_shape(request);
        let shape = self.shape_key(with);
        for _ in 0..TRIES {
            let Some((ready, undertaking)) = self.claim(&shape)? else { break };
            let name = request.name.clone().map_or_else(|| made_up_name(ready.id), Ok)?;
            match self.wake_claimed(&ready, name, request, image, undertaking).await {
                Ok(view) => return Ok(Some(view)),
                Err(failure) if failure.code() == Code::WorkspaceExists => return Err(failure),
                Err(failure) => {
                    tracing::warn!(%failure, "a machine of the pool could not be used");
                    self.remove_unneeded()?;
                }
            }
        }
        if self.installation.config.pool.size > 0 {
            self.leave_for_later()?;
        }
        Ok(None)
    }

    fn claim(&self, shape: &str) -> Result<Option<(PoolMachine, Undertaking<'_>)>, Failure> {
        let claimed = self.meta.write(|tx| {
            let Some(ready) = tx.claim(shape)? else { return Ok(None) };
            let berth = MachineState::from_value(&ready.machine).map(|machine| machine.berth);
            let intent =
                Intent { disks: vec![ready.disk], berths: berth.into_iter().collect(), ..Intent::default() };
            let value = serde_json::to_value(&intent).unwrap_or_default();
            let operation: OperationId = tx.begin("claim", Some(ready.id), &value)?;
            Ok::<_, MetaError>(Some((ready, operation, intent)))
        })?;
        Ok(claimed.map(|(ready, operation, intent)| (ready, self.resume_undertaking(operation, intent))))
    }

    async fn wake_claimed(
        &self,
        ready: &PoolMachine,
        name: WorkspaceName,
        request: &CreateRequest,
        image: &Image,
        undertaking: Undertaking<'_>,
    ) -> Result<WorkspaceView, Failure> {
        let state = MachineState::from_value(&ready.machine)?;
        let machine = self.come_back(&state).await?;
        let identity = Identity { id: ready.id, hostname: name.to_string() };
        identity.give_to(&machine, OnWake::Start).await?;
        let workspace = Workspace {
            id: ready.id,
            name,
            image: ready.image.clone(),
            image_identity: image_identity(image),
            resources: ready.resources,
            created: now(),
            state: WorkspaceState::Running { machine: ready.machine.clone() },
            disk: ready.disk,
            position: None,
            lineage: None,
            from_pool: true,
            tier: tier_name(Tier::Pool),
        };
        undertaking.finish(|tx| insert_created(tx, &workspace, request))?;
        self.held.leave(workspace.id, machine);
        Ok(view_of(&workspace, Some(&state)))
    }

    /// Makes one machine ready and puts it into the pool.
    pub async fn add_to_pool(&self, shape: &PoolShape, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        let image = self.installation.images()?.get(&shape.image)?;
        let with = self.installation.ingredients(&image, &shape.resources, progress).await?;
        // Nobody waits for this machine, so it can wait for its template. Without one it is made another way.
        if let Err(error) = self.installation.warm_template(&with, progress).await {
            tracing::warn!(error = %agentiso_core::chain(&error), "no warm template");
        }
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let _disks = self.use_disks()?;
        let disk = DiskId::from_uuid(Uuid::now_v7());
        let berth_name = BerthName::new(id);
        let intent = Intent { disks: vec![disk], berths: vec![berth_name], ..Intent::default() };
        let undertaking = self.undertake("pool", Some(id), intent)?;
        let berth = self.berth(berth_name, disk, BerthDisk::Fresh, &with.host)?;
        let started = self.installation.start_in(&with, &berth, false, progress).await?;
        let identity = Identity { id, hostname: made_up_name(id)?.to_string() };
        identity.give_to(&started.machine, OnWake::Start).await?;
        if let Some(bytes) = started.disk_bytes {
            started.machine.announce_disk_size(bytes).await?;
        }
        let state = self.lasting(&started.machine, berth_name, with.restore_key())?;
        let machine = self.rehearsed(started.machine, &state, &identity).await?;
        machine.qmp().execute("stop", json!({})).await.map_err(VmError::from)?;
        let ready = PoolMachine {
            id,
            shape: self.shape_key(&with),
            image: shape.image.clone(),
            image_identity: image_identity(&image),
            resources: shape.resources,
            disk,
            machine: state.to_value()?,
            tier: tier_name(started.tier),
            created: now(),
        };
        let parent = self.parent_of(disk)?;
        undertaking.finish(|tx| {
            insert_disk(tx, disk, parent)?;
            tx.insert_pool_machine(&ready)
        })?;
        machine.release();
        Ok(())
    }

    /// Lets a machine do once what every workspace does first, from coming back to it to the end of a command.
    async fn rehearsed(
        &self,
        mut machine: Machine,
        state: &MachineState,
        identity: &Identity,
    ) -> Result<Machine, Failure> {
        for _ in 0..REHEARSALS {
            rehearse(&machine).await?;
            machine.release();
            machine = self.come_back(state).await?;
            identity.give_to(&machine, OnWake::Start).await?;
        }
        Ok(machine)
    }

    /// Comes back to a machine that no workspace owns.
    async fn come_back(&self, state: &MachineState) -> Result<Machine, Failure> {
        let dir = state.berth.path(&self.installation.paths.workspaces_dir());
        let patience = self.installation.config.vm.boot_timeout();
        let found = Machine::adopt(&dir, &state.record, patience).await?;
        found.ok_or_else(|| Failure::new(Code::VmCrashed, "a machine of the pool has ended by itself"))
    }

    /// Names everything a machine depends on: one of the same name is exactly what is asked for.
    pub(super) fn shape_key(&self, with: &Ingredients) -> String {
        with.warm_key(self.installation.disks())
    }
}

/// Asks what is asked before the first command, and runs the commands of the rehearsal.
async fn rehearse(machine: &Machine) -> Result<(), VmError> {
    let ask = async {
        let guest = machine.guest();
        // What the guest refuses was rehearsed too.
        let _ = (guest.env().await, guest.stat(BASH.as_bytes(), true).await, guest.status().await);
        Ok(())
    };
    machine.during("its rehearsal", super::snapshot::CALM_LIMIT, ask).await?;
    for argv in REHEARSAL {
        let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
        let run = async {
            let mut process = machine.guest().exec(Exec { argv, ..Exec::default() }).await?;
            // An image without this command rehearses the others.
            while let Ok(Some(_)) = process.next().await {}
            Ok(())
        };
        machine.during("its rehearsal", super::snapshot::CALM_LIMIT, run).await?;
    }
    Ok(())
}
