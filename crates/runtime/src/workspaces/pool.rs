//! The pool: machines that are started before they are needed.
//!
//! A pooled machine has its image mounted, has run some commands, and is paused. A create request that matches its image
//! and size takes it, resumes it and gives it an identity.

use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{
    Code, DiskId, Failure, ImageName, NetworkRules, NetworkState, Resources, WorkspaceId, WorkspaceName,
};
use agentiso_images::store::Image;
use agentiso_meta::{MetaError, OperationId, PoolMachine, Workspace, WorkspaceState};
use agentiso_proto::{Card, Exec};
use agentiso_vmm::{Machine, VmError};
use serde_json::json;
use uuid::Uuid;

use super::base::insert_disk;
use super::create::{insert_created, made_up_name, now, tier_name};
use super::intent::{Intent, MachineDirName};
use super::machine::MachineState;
use super::undertaking::Undertaking;
use super::views::view_of;
use super::{CreateRequest, WorkspaceView, Workspaces};
use crate::start::{Identity, Ingredients, OnWake, StartDisk, Tier, image_identity};

/// Commands that a machine runs before it is paused, so that typical first commands find their code translated and in
/// memory.
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
/// The commands are run more than once, because some code paths are only taken the second time.
const REHEARSALS: usize = 2;
/// How many pooled machines are tried if one of them has died.
const TRIES: usize = 4;

/// The image and size of pooled machines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PoolShape {
    /// The image.
    pub image: ImageName,
    /// The size.
    pub resources: Resources,
}

impl Workspaces {
    /// Takes a pooled machine that matches the request. `None` if there is none.
    pub(super) async fn take_from_pool(
        &self,
        request: &CreateRequest,
        image: &Image,
        with: &Ingredients,
    ) -> Result<Option<WorkspaceView>, Failure> {
        self.remember_shape(request);
        let shape = self.shape_key(with);
        for _ in 0..TRIES {
            let Some((ready, undertaking, network)) = self.claim(&shape, &request.network)? else { break };
            let name = request.name.clone().map_or_else(|| made_up_name(ready.id), Ok)?;
            match self.wake_claimed(&ready, name, request, image, (undertaking, network)).await {
                Ok(view) => return Ok(Some(view)),
                Err(failure) if failure.code() == Code::WorkspaceExists => return Err(failure),
                Err(failure) => {
                    tracing::warn!(%failure, "could not use a pooled machine");
                    self.remove_unneeded()?;
                }
            }
        }
        if self.installation.config.pool.size > 0 {
            self.leave_for_later()?;
        }
        Ok(None)
    }

    /// Takes a machine out of the pool, and reserves an address for it if its rules need one.
    fn claim(
        &self,
        shape: &str,
        rules: &NetworkRules,
    ) -> Result<Option<(PoolMachine, Undertaking<'_>, NetworkState)>, Failure> {
        let addresses = self.free_addresses(usize::from(!rules.is_off()))?;
        let claimed = self.meta.write(|tx| {
            let addresses = match addresses(tx)? {
                Ok(addresses) => addresses,
                Err(failure) => return Ok(Err(failure)),
            };
            let Some(ready) = tx.claim(shape)? else { return Ok(Ok(None)) };
            let dir = MachineState::from_value(&ready.machine).map(|machine| machine.dir);
            let intent = Intent {
                disks: vec![ready.disk],
                machine_dirs: dir.into_iter().collect(),
                addresses,
                ..Intent::default()
            };
            let value = serde_json::to_value(&intent).unwrap_or_default();
            let operation: OperationId = tx.begin("claim", Some(ready.id), &value)?;
            Ok::<_, MetaError>(Ok(Some((ready, operation, intent))))
        })??;
        Ok(claimed.map(|(ready, operation, intent)| {
            let network = NetworkState { rules: rules.clone(), address: intent.addresses.first().copied() };
            (ready, self.resume_undertaking(operation, intent), network)
        }))
    }

    async fn wake_claimed(
        &self,
        ready: &PoolMachine,
        name: WorkspaceName,
        request: &CreateRequest,
        image: &Image,
        (undertaking, network): (Undertaking<'_>, NetworkState),
    ) -> Result<WorkspaceView, Failure> {
        let mut state = MachineState::from_value(&ready.machine)?;
        let identity = Identity { id: ready.id, hostname: name.to_string() };
        let woken = async {
            let machine = self.reconnect(&state).await?;
            identity.give_to(&machine, OnWake::Start).await?;
            let proxy = self.configure_card(ready.id, &machine, &network).await?;
            Ok((machine, proxy))
        };
        let ((machine, proxy), attached) = self.attach_while(ready.id, &network, woken).await?;
        let wired = self.plug(ready.id, &machine, &network.rules, proxy, attached).await?;
        state.card = wired.as_ref().map(|wired| wired.card.clone());
        let workspace = Workspace {
            id: ready.id,
            name,
            image: ready.image.clone(),
            image_identity: image_identity(image),
            resources: ready.resources,
            created: now(),
            state: WorkspaceState::Running { machine: state.to_value()? },
            disk: ready.disk,
            position: None,
            lineage: None,
            from_pool: true,
            tier: tier_name(Tier::Pool),
            network,
        };
        undertaking.finish(|tx| insert_created(tx, &workspace, request))?;
        if let Some(wired) = wired {
            wired.keep();
        }
        self.connections.leave(workspace.id, machine);
        Ok(view_of(&workspace, Some(&state)))
    }

    /// Starts one machine and adds it to the pool.
    pub async fn add_to_pool(&self, shape: &PoolShape, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        let image = self.installation.image(&shape.image)?;
        let with = self.installation.ingredients(&image, &shape.resources, progress).await?;
        // Nobody waits for this machine, so it can wait for its template. Without one it is started another way.
        if let Err(error) = self.installation.warm_template(&with, progress).await {
            tracing::warn!(error = %agentiso_core::chain(&error), "no warm template");
        }
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let _disks = self.use_disks()?;
        let disk = DiskId::from_uuid(Uuid::now_v7());
        let dir_name = MachineDirName::new(id);
        let intent = Intent { disks: vec![disk], machine_dirs: vec![dir_name], ..Intent::default() };
        let undertaking = self.undertake("pool", Some(id), intent)?;
        let pending = self.pending_start(dir_name, disk, StartDisk::Fresh, &with.host)?;
        let started = self.installation.start_in(&with, &pending, false, progress).await?;
        let identity = Identity { id, hostname: made_up_name(id)?.to_string() };
        identity.give_to(&started.machine, OnWake::Start).await?;
        if let Some(bytes) = started.disk_bytes {
            started.machine.announce_disk_size(bytes).await?;
        }
        let state = self.lasting(&started.machine, dir_name, with.restore_key())?;
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

    /// Runs what every workspace does first: reconnecting, setting an identity, commands.
    async fn rehearsed(
        &self,
        mut machine: Machine,
        state: &MachineState,
        identity: &Identity,
    ) -> Result<Machine, Failure> {
        // Any address: nothing is connected to the card.
        let card = self.net.card(identity.id, self.net.pool.gateway());
        for _ in 0..REHEARSALS {
            rehearse(&machine, card).await?;
            machine.release();
            machine = self.reconnect(state).await?;
            identity.give_to(&machine, OnWake::Start).await?;
        }
        Ok(machine)
    }

    /// Reconnects to a machine that belongs to no workspace.
    async fn reconnect(&self, state: &MachineState) -> Result<Machine, Failure> {
        let dir = state.dir.path(&self.installation.paths.workspaces_dir());
        let patience = self.installation.config.vm.boot_timeout();
        let found = Machine::adopt(&dir, &state.record, patience).await?;
        found.ok_or_else(|| Failure::new(Code::VmCrashed, "a pooled machine has ended by itself"))
    }

    /// A key over everything that a machine depends on: a pooled machine with the same key matches.
    pub(super) fn shape_key(&self, with: &Ingredients) -> String {
        with.warm_key(self.installation.disks())
    }
}

/// Sends the requests that precede a first command, and runs the commands.
async fn rehearse(machine: &Machine, card: Card) -> Result<(), VmError> {
    let ask = async {
        let guest = machine.guest();
        // Errors do not matter: the guest has run the code.
        let _ = (guest.env().await, guest.stat(BASH.as_bytes(), true).await, guest.status().await);
        let _ = (guest.set_card(Some(card)).await, guest.set_card(None).await);
        Ok(())
    };
    machine.during("its rehearsal", super::snapshot::HOLD_LIMIT, ask).await?;
    for argv in REHEARSAL {
        let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
        let run = async {
            let mut process = machine.guest().exec(Exec { argv, ..Exec::default() }).await?;
            // An image may lack this command.
            while let Ok(Some(_)) = process.next().await {}
            Ok(())
        };
        machine.during("its rehearsal", super::snapshot::HOLD_LIMIT, run).await?;
    }
    Ok(())
}
