//! Forking a running machine.
//!
//! The children's QEMUs are started first and wait. Then the source is paused while its private pages are copied and its
//! disk is frozen. After it is resumed, the children are filled. So the pause does not grow with the number of children.

use std::sync::Arc;

use agentiso_core::ports::Freezing;
use agentiso_core::{DiskId, Failure, SnapshotName};
use agentiso_meta::Workspace;
use agentiso_proto::Inherit;
use agentiso_vmm::{DeviceState, Fill, Hardware, Host, RestoreFrom, Standby, TakeMemory, TakenMemory};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fork::Child;
use super::freeze::What;
use super::restore::{Revived, not_restored};
use super::undertaking::internal;
use super::{Attached, ForkOutcome, ForkRequest, Workspaces};
use crate::start::{Identity, OnWake, StartDisk, Tier};

impl Workspaces {
    pub(super) async fn fork_running(
        &self,
        attached: &Attached,
        request: &ForkRequest,
        mut children: Vec<Child>,
    ) -> Result<ForkOutcome, Failure> {
        let _disks = self.use_disks()?;
        let (source, state) = (&attached.workspace, &attached.state);
        let fresh = DiskId::from_uuid(Uuid::now_v7());
        let switch = self.switch(source, fresh);
        let intent = Self::fork_intent(&children, Some(fresh), switch);
        let undertaking = self.undertake_fork(source.id, intent, &mut children)?;
        let host = self.installation.host()?;
        let (restore_key, hardware) = (state.restore_key.clone(), state.record.hardware);
        let base = Self::base_name(&state.record.memory);
        // With back ends that copy, the children's disks do not exist before the source is frozen.
        let early = self.installation.disks().freezing() == Freezing::Overlay;
        let mut waiting = Vec::new();
        for child in children {
            let standby = if early {
                Some(self.standby_on(source, source.disk, &child, &host, &base, hardware)?)
            } else {
                None
            };
            waiting.push((standby, child));
        }
        let what = What::EverythingAsItIs;
        let prepared = self.prepare_save(attached, fresh, TakeMemory::Pages).await?;
        for standby in waiting.iter_mut().filter_map(|(standby, _)| standby.as_mut()) {
            if let Err(error) = standby.ready().await {
                attached.machine().give_up(prepared).await;
                return Err(error.into());
            }
        }
        let (frozen, captured) = self.freeze_prepared(attached, &undertaking, what, fresh, prepared).await?;
        let TakenMemory::Pages(pages) = captured.memory else {
            return Err(internal("the memory of the source was not taken"));
        };
        let from = RestoreFrom {
            device: DeviceState::Bytes(Arc::new(captured.device)),
            fill: Fill::Taken(Arc::new(pages)),
            inherit: Inherit::Held,
            resync: captured.resync,
        };
        let mut births = JoinSet::new();
        for (standby, child) in waiting {
            let standby = match standby {
                Some(standby) => standby,
                None => self.standby_on(source, frozen, &child, &host, &base, hardware)?,
            };
            let (workspaces, from, restore_key) = (self.clone(), from.clone(), restore_key.clone());
            births.spawn(async move {
                let _turn = workspaces.turns.to_fill().await;
                let born = workspaces.bear(&child, standby, from, restore_key, None).await;
                (child, born)
            });
        }
        self.conclude_forks(source, None, request, undertaking, births, captured.pause).await
    }

    /// Starts the waiting QEMU of a child, on a new disk with `disk` as its backing disk.
    pub(super) fn standby_on(
        &self,
        source: &Workspace,
        disk: DiskId,
        child: &Child,
        host: &Host,
        base: &str,
        hardware: Hardware,
    ) -> Result<Standby, Failure> {
        self.disk_on(source, disk, child)?;
        let pending = self.pending_start(child.dir, child.disk, StartDisk::Existing, host)?;
        self.standby(host, &pending, base, hardware)
    }

    /// Completes a child: restores its memory, from a snapshot or from the running machine, and gives it an identity.
    pub(super) async fn bear(
        &self,
        child: &Child,
        standby: Standby,
        from: RestoreFrom,
        restore_key: String,
        snapshot: Option<&SnapshotName>,
    ) -> Result<Revived, Failure> {
        let identity = Identity { id: child.id, hostname: child.name.to_string() };
        let ready = async {
            let restored = standby.restore(from).await;
            let (machine, tier) = match snapshot {
                Some(name) => (restored.map_err(|error| not_restored(name, error))?, Tier::Snapshot),
                None => (restored?, Tier::Fork),
            };
            let hooks = identity.give_to(&machine, OnWake::Fork).await?;
            let proxy = self.configure_child(child, &machine).await?;
            Ok((machine, tier, hooks, proxy))
        };
        let ((machine, tier, hooks, proxy), attached) =
            self.attach_while(child.id, &child.network, ready).await?;
        let wired = self.plug(child.id, &machine, &child.network.rules, proxy, attached).await?;
        let mut state = self.lasting(&machine, child.dir, restore_key)?;
        state.card = wired.as_ref().map(|wired| wired.card.clone());
        Ok(Revived { machine, state, tier, hooks, wired })
    }
}
