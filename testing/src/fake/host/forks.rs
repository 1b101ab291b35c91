//! New workspaces from one that exists.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentiso_core::ports::host::{ForkOutcome, ForkRequest, ForkSource, Forked};
use agentiso_core::{Code, DiskId, Failure, NetworkState, Resources, SnapshotId, WorkspaceId, WorkspaceName};
use agentiso_meta::{Lineage, Workspace};
use agentiso_policy::egress::Policy;
use uuid::Uuid;

use super::network::network_of;
use super::snapshots::freeze;
use super::state::{FakeHost, HostCall, StoredDisk, StoredMemory, insert_disk, new_disk, now, state_of};
use super::workspaces::insert_owned;
use crate::fake::machine::{Machine, locked};
use crate::fake::memory::{Memory, set_hostname};

/// The most forks one call makes.
const MOST: u32 = 100;

/// A moment that is forked.
struct Origin {
    disk: DiskId,
    snapshot: Option<SnapshotId>,
    memory: Option<StoredMemory>,
    resources: Resources,
    /// The disk its workspace writes to from now on, if the moment is the present.
    fresh: Option<DiskId>,
}

impl FakeHost {
    pub(super) async fn fork_workspace(&self, request: &ForkRequest) -> Result<ForkOutcome, Failure> {
        if !(1..=MOST).contains(&request.count) {
            let message = format!("{} forks were asked for; one call makes 1 to {MOST}", request.count);
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let _turn = self.turn(request.workspace).await;
        let source = self.workspace(request.workspace)?;
        let rules = request.network.as_ref().unwrap_or(&source.network.rules);
        Policy::check(rules)?;
        let names = self.plan(&source, request)?;
        let origin = self.origin(&source, request)?;
        let (mut forks, mut born) = (Vec::new(), Vec::new());
        for name in names {
            match self.pass(HostCall::ForkOne).await {
                Ok(()) => born.push(self.bear(&source, &origin, name)?),
                Err(failure) if request.all_or_nothing || request.count == 1 => {
                    born.iter().for_each(|(_, machine, _)| machine.end("another fork could not be made"));
                    return Err(failure);
                }
                Err(failure) => forks.push(Forked { name, result: Err(failure) }),
            }
        }
        let recorded = self.inner.meta.write(|tx| {
            if let Some(fresh) = origin.fresh {
                freeze(tx, &source, fresh)?;
            }
            for (row, ..) in &mut born {
                insert_disk(tx, row.disk, Some(origin.disk))?;
                row.network = network_of(tx, rules)?;
                insert_owned(tx, row, request.owner)?;
            }
            Ok(())
        });
        if let Err(error) = recorded {
            born.iter().for_each(|(_, machine, _)| machine.end("it was not recorded"));
            return Err(error.into());
        }
        if let Some(fresh) = origin.fresh {
            self.freeze_files(&source, fresh)?;
        }
        for (row, machine, disk) in born {
            locked(&self.inner.disks).insert(row.disk, disk);
            locked(&self.inner.machines).insert(row.id, machine);
            let view = self.view_of(&row, None);
            forks.push(Forked { name: row.name, result: Ok((view, Vec::new())) });
        }
        forks.sort_by(|a, b| (a.name.as_str().len(), &a.name).cmp(&(b.name.as_str().len(), &b.name)));
        Ok(ForkOutcome { forks, pause: Duration::from_millis(1) })
    }

    /// Names the forks before anything is made.
    fn plan(&self, source: &Workspace, request: &ForkRequest) -> Result<Vec<WorkspaceName>, Failure> {
        if let (Some(name), 1) = (&request.name, request.count) {
            self.require_free_name(name)?;
            return Ok(vec![name.clone()]);
        }
        let taken = self.inner.meta.read(|read| read.workspaces())?;
        let stem = request.name.as_ref().unwrap_or(&source.name).to_string();
        let names = (1u32..).map(|number| {
            let tail = format!("-{number}");
            let stem = &stem[..stem.len().min(WorkspaceName::MAX - tail.len())];
            format!("{}{tail}", stem.trim_end_matches('-')).parse::<WorkspaceName>()
        });
        let is_free = |name: &Result<WorkspaceName, _>| match name {
            Ok(name) => !taken.iter().any(|workspace| workspace.name == *name),
            Err(_) => true,
        };
        let names: Result<Vec<_>, _> = names.filter(is_free).take(request.count as usize).collect();
        Ok(names?)
    }

    fn origin(&self, source: &Workspace, request: &ForkRequest) -> Result<Origin, Failure> {
        match &request.source {
            ForkSource::Now => {
                let memory = self.reach(source)?.map(|machine| machine.copy_memory());
                Ok(Origin {
                    disk: source.disk,
                    snapshot: None,
                    memory: memory.map(|memory| StoredMemory { memory, resources: source.resources }),
                    resources: source.resources,
                    fresh: Some(new_disk()),
                })
            }
            ForkSource::Snapshot { id, disk_only } => {
                let snapshot = self.snapshot_of(source.id, *id)?;
                let memory = snapshot.memory.filter(|_| !disk_only);
                let memory = memory.and_then(|memory| locked(&self.inner.memories).get(&memory).cloned());
                let then = self.size_then(source, &snapshot)?;
                let resources = memory
                    .as_ref()
                    .map_or(then, |stored| Resources { disk_gb: then.disk_gb, ..stored.resources });
                Ok(Origin {
                    disk: snapshot.disk,
                    snapshot: Some(snapshot.id),
                    memory,
                    resources,
                    fresh: None,
                })
            }
        }
    }

    fn bear(
        &self,
        source: &Workspace,
        origin: &Origin,
        name: WorkspaceName,
    ) -> Result<(Workspace, Arc<Machine>, StoredDisk), Failure> {
        let mut files = self.files(origin.disk)?;
        set_hostname(&mut files, name.as_str());
        let files = Arc::new(Mutex::new(files));
        let (mut memory, tier) = match (&origin.memory, origin.snapshot) {
            (Some(stored), None) => (stored.memory.clone(), "fork"),
            (Some(stored), Some(_)) => (stored.memory.clone(), "snapshot"),
            (None, _) => (Memory::default(), "template"),
        };
        memory.hostname = name.to_string();
        let machine = self.machine(Arc::clone(&files), memory);
        let created = now();
        let lineage = Lineage {
            workspace: source.id,
            name: source.name.clone(),
            snapshot: origin.snapshot,
            forked_at: created,
            depth: source.depth() + 1,
        };
        let row = Workspace {
            id: WorkspaceId::from_uuid(Uuid::now_v7()),
            name,
            image: source.image.clone(),
            image_identity: source.image_identity.clone(),
            resources: origin.resources,
            created,
            state: state_of(&machine),
            disk: new_disk(),
            position: None,
            lineage: Some(lineage),
            from_pool: false,
            tier: tier.to_owned(),
            network: NetworkState::default(),
        };
        let disk = StoredDisk { files, gb: origin.resources.disk_gb };
        Ok((row, machine, disk))
    }
}
