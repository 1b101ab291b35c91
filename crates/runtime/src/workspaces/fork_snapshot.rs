//! Forking a snapshot, or a stopped workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::DiskSource;
use agentiso_core::progress::Progress;
use agentiso_core::{DiskId, Failure, SnapshotId};
use agentiso_meta::{Snapshot, Workspace};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fork::Child;
use super::undertaking::Undertaking;
use super::{ForkOutcome, ForkRequest, Workspaces};
use crate::start::{Identity, OnWake};

impl Workspaces {
    pub(super) async fn fork_snapshot(
        &self,
        source: &Workspace,
        snapshot: &Snapshot,
        disk_only: bool,
        request: &ForkRequest,
        mut children: Vec<Child>,
        progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        let memory = if disk_only { None } else { self.memory_to_restore(snapshot)? };
        let _disks = self.use_disks()?;
        let source = &self.as_of(source, snapshot.disk)?;
        let intent = Self::fork_intent(&children, None, None);
        let undertaking = self.undertake_fork(source.id, intent, &mut children)?;
        let Some((memory, about)) = memory else {
            let from = (snapshot.disk, Some(snapshot.id));
            return self.fork_disk(source, from, request, undertaking, children, progress).await;
        };
        let host = self.installation.host()?;
        let from = self.state_of(snapshot, &memory, &about).await?;
        let mut births = JoinSet::new();
        for child in children {
            let standby =
                self.standby_on(source, snapshot.disk, &child, &host, &memory.base, about.hardware)?;
            let (workspaces, from, key) = (self.clone(), from.clone(), about.restore_key.clone());
            let name = snapshot.name.clone();
            births.spawn(async move {
                let _turn = workspaces.turns.to_fill().await;
                let born = workspaces.bear(&child, standby, from, key, Some(&name)).await;
                (child, born)
            });
        }
        self.conclude_forks(source, Some(snapshot.id), request, undertaking, births, Duration::ZERO).await
    }

    pub(super) async fn fork_stopped(
        &self,
        source: &Workspace,
        request: &ForkRequest,
        mut children: Vec<Child>,
        progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        let _disks = self.use_disks()?;
        let fresh = DiskId::from_uuid(Uuid::now_v7());
        let intent = Self::fork_intent(&children, Some(fresh), self.switch(source, fresh));
        let undertaking = self.undertake_fork(source.id, intent, &mut children)?;
        let frozen = self.freeze_stopped(source, &undertaking, fresh)?;
        self.fork_disk(source, (frozen, None), request, undertaking, children, progress).await
    }

    /// Starts children on new disks with a frozen disk as their backing disk.
    async fn fork_disk(
        &self,
        source: &Workspace,
        from: (DiskId, Option<SnapshotId>),
        request: &ForkRequest,
        undertaking: Undertaking<'_>,
        children: Vec<Child>,
        progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        let (frozen, snapshot) = from;
        let mut births = JoinSet::new();
        for child in children {
            self.disk_on(source, frozen, &child)?;
            let (workspaces, source, progress) = (self.clone(), source.clone(), progress.clone());
            births.spawn(async move {
                let identity = Identity { id: child.id, hostname: child.name.to_string() };
                let (dir, disk, on) = (child.dir, child.disk, OnWake::ForkDisk);
                let ready = async {
                    let revived =
                        workspaces.revive_from_disk(&source, &identity, dir, disk, on, &progress).await?;
                    let proxy = workspaces.configure_child(&child, &revived.machine).await?;
                    Ok((revived, proxy))
                };
                let born = async {
                    let ((mut revived, proxy), attached) =
                        workspaces.attach_while(child.id, &child.network, ready).await?;
                    let rules = &child.network.rules;
                    revived.wired =
                        workspaces.plug(child.id, &revived.machine, rules, proxy, attached).await?;
                    revived.state.card = revived.wired.as_ref().map(|wired| wired.card.clone());
                    Ok(revived)
                };
                let born = born.await;
                (child, born)
            });
        }
        self.conclude_forks(source, snapshot, request, undertaking, births, Duration::ZERO).await
    }

    /// Creates a child's disk. Its backing disk is frozen, or will be before the child runs.
    pub(super) fn disk_on(&self, source: &Workspace, frozen: DiskId, child: &Child) -> Result<(), Failure> {
        let (path, frozen) = (self.installation.disk_path(child.disk), self.installation.disk_path(frozen));
        let bytes = source.resources.disk_bytes();
        Ok(self.installation.create_disk(&path, &DiskSource::Layer(frozen), bytes)?)
    }
}
