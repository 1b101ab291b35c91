//! Forking a workspace.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, DiskId, Failure, NetworkState, Resources, SnapshotId, WorkspaceId, WorkspaceName};
use agentiso_meta::{Lineage, Tx, Workspace, WorkspaceState};
use agentiso_net::egress::ProxySetup;
use agentiso_policy::egress::Policy;
use agentiso_vmm::Machine;
use jiff::Timestamp;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::base::insert_disk;
use super::create::{insert_owned, now, tier_name};
use super::intent::{Intent, MachineDirName, Switch};
use super::restore::Revived;
use super::undertaking::Undertaking;
use super::views::view_of;
use super::{ForkOutcome, ForkRequest, ForkSource, Forked, Workspaces};

/// The most forks one call makes.
pub(crate) const MOST: u32 = 100;

/// A fork that is being created.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub id: WorkspaceId,
    pub name: WorkspaceName,
    pub disk: DiskId,
    pub dir: MachineDirName,
    /// What it may reach.
    pub network: NetworkState,
    /// Whether its memory or disk may have been in a network.
    pub remembers_network: bool,
    /// The same for all forks of a call, so that lists, which are sorted by time and then id, show them in order.
    pub created: Timestamp,
}

impl Workspaces {
    /// Forks a workspace or one of its snapshots. A running source continues to run.
    pub async fn fork(
        &self,
        request: &ForkRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        if !(1..=MOST).contains(&request.count) {
            let message = format!("{} forks were asked for; one call makes 1 to {MOST}", request.count);
            return Err(Failure::new(Code::InvalidArgument, message));
        }
        let (source, lock) = self.lock(request.workspace).await?;
        Policy::check(request.network.as_ref().unwrap_or(&source.network.rules))?;
        let children = self.plan(&source, request)?;
        // A stopped source must not be started in the meantime.
        let _lock = lock.clone();
        match &request.source {
            ForkSource::Now => match self.attach_locked(source.clone(), lock).await {
                Ok(attached) => self.fork_running(&attached, request, children).await,
                Err(failure) if failure.code() == Code::WorkspaceNotRunning => {
                    self.fork_stopped(&source, request, children, progress).await
                }
                Err(failure) => Err(failure),
            },
            ForkSource::Snapshot { id, disk_only } => {
                let snapshot = self.snapshot_of(&source, *id)?;
                self.fork_snapshot(&source, &snapshot, *disk_only, request, children, progress).await
            }
        }
    }

    /// Chooses names and ids of the forks.
    fn plan(&self, source: &Workspace, request: &ForkRequest) -> Result<Vec<Child>, Failure> {
        let taken = self.meta.read(|read| read.workspaces())?;
        let is_taken = |name: &WorkspaceName| taken.iter().any(|workspace| workspace.name == *name);
        let remembers_network = source.network.address.is_some() || request.source != ForkSource::Now;
        let created = now();
        let child = |name| {
            let id = WorkspaceId::from_uuid(Uuid::now_v7());
            let rules = request.network.as_ref().unwrap_or(&source.network.rules).clone();
            let network = NetworkState { rules, address: None };
            let disk = DiskId::from_uuid(Uuid::now_v7());
            Child { id, name, disk, dir: MachineDirName::new(id), network, remembers_network, created }
        };
        if let (Some(name), 1) = (&request.name, request.count) {
            self.require_free_name(name)?;
            return Ok(vec![child(name.clone())]);
        }
        let stem = request.name.as_ref().unwrap_or(&source.name).to_string();
        let mut names = Vec::new();
        let mut number = 1u32;
        while names.len() < request.count as usize {
            let name = numbered(&stem, number)?;
            if !is_taken(&name) {
                names.push(name);
            }
            number += 1;
        }
        Ok(names.into_iter().map(child).collect())
    }

    /// The intent of a fork: the children's disks and directories, and the new disk of the source.
    pub(super) fn fork_intent(children: &[Child], also: Option<DiskId>, switch: Option<Switch>) -> Intent {
        Intent {
            disks: children.iter().map(|child| child.disk).chain(also).collect(),
            machine_dirs: children.iter().map(|child| child.dir).collect(),
            switch,
            ..Intent::default()
        }
    }

    /// Records the intent of a fork, and gives the children their addresses.
    pub(super) fn undertake_fork(
        &self,
        source: WorkspaceId,
        intent: Intent,
        children: &mut [Child],
    ) -> Result<Undertaking<'_>, Failure> {
        let needy = children.iter_mut().filter(|child| !child.network.rules.is_off());
        let needy: Vec<&mut Child> = needy.collect();
        let (undertaking, addresses) =
            self.undertake_with_addresses("fork", Some(source), intent, needy.len())?;
        for (child, address) in needy.into_iter().zip(addresses) {
            child.network.address = Some(address);
        }
        Ok(undertaking)
    }

    /// Configures the card of a child, or takes the card down that it remembers from its source.
    pub(super) async fn configure_child(
        &self,
        child: &Child,
        machine: &Machine,
    ) -> Result<ProxySetup, Failure> {
        if child.network.address.is_none() && child.remembers_network {
            self.take_card_down(machine).await?;
        }
        self.configure_card(child.id, machine, &child.network).await
    }

    /// Waits for all children and adds those that started to the database, in one transaction.
    pub(super) async fn conclude_forks(
        &self,
        source: &Workspace,
        snapshot: Option<SnapshotId>,
        request: &ForkRequest,
        undertaking: Undertaking<'_>,
        mut births: JoinSet<(Child, Result<Revived, Failure>)>,
        pause: Duration,
    ) -> Result<ForkOutcome, Failure> {
        let mut born = Vec::new();
        let mut forks = Vec::new();
        while let Some(birth) = births.join_next().await {
            let (child, result) = birth
                .map_err(|error| Failure::new(Code::Internal, format!("making a fork failed: {error}")))?;
            match result {
                Ok(revived) => born.push((child, revived)),
                Err(failure) if request.all_or_nothing => {
                    births.shutdown().await;
                    return Err(failure);
                }
                Err(failure) => forks.push(Forked { name: child.name, result: Err(failure) }),
            }
        }
        if born.is_empty()
            && let Some(Forked { result: Err(failure), .. }) = forks.pop_if(|_| request.count == 1)
        {
            return Err(failure);
        }
        let mut rows = Vec::new();
        for (child, revived) in &born {
            let row = fork_row(source, snapshot, child, revived)?;
            rows.push((row, self.parent_of(child.disk)?));
        }
        let write_down = |tx: &Tx<'_>| {
            for (row, parent) in &rows {
                insert_disk(tx, row.disk, *parent)?;
                insert_owned(tx, row, request.owner)?;
            }
            Ok(())
        };
        if forks.is_empty() {
            undertaking.finish(write_down)?;
        } else {
            undertaking.finish_in_part(write_down)?;
        }
        for ((child, revived), (row, _)) in born.into_iter().zip(&rows) {
            let view = view_of(row, Some(&revived.state));
            if let Some(wired) = revived.wired {
                wired.keep();
            }
            self.connections.leave(row.id, revived.machine);
            forks.push(Forked { name: child.name, result: Ok((view, revived.hooks)) });
        }
        forks.sort_by(|a, b| (a.name.as_str().len(), &a.name).cmp(&(b.name.as_str().len(), &b.name)));
        Ok(ForkOutcome { forks, pause })
    }
}

fn fork_row(
    source: &Workspace,
    snapshot: Option<SnapshotId>,
    child: &Child,
    revived: &Revived,
) -> Result<Workspace, Failure> {
    let created = child.created;
    let lineage = Lineage {
        workspace: source.id,
        name: source.name.clone(),
        snapshot,
        forked_at: created,
        depth: source.depth() + 1,
    };
    // The size of the machine that was forked, which may differ from the source's current size.
    let hardware = revived.state.record.hardware;
    let resources =
        Resources { vcpus: hardware.vcpus, memory_mb: hardware.memory_mb, disk_gb: source.resources.disk_gb };
    Ok(Workspace {
        id: child.id,
        name: child.name.clone(),
        image: source.image.clone(),
        image_identity: source.image_identity.clone(),
        resources,
        created,
        state: WorkspaceState::Running { machine: revived.state.to_value()? },
        disk: child.disk,
        position: None,
        lineage: Some(lineage),
        from_pool: false,
        tier: tier_name(revived.tier),
        network: child.network.clone(),
    })
}

/// `stem-number`, with the stem cut to the maximum length of a name.
fn numbered(stem: &str, number: u32) -> Result<WorkspaceName, Failure> {
    let tail = format!("-{number}");
    let room = WorkspaceName::MAX - tail.len();
    let stem = stem[..stem.len().min(room)].trim_end_matches('-');
    Ok(format!("{stem}{tail}").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_are_names_however_long_the_stem() {
        assert_eq!(numbered("web", 7).unwrap().as_str(), "web-7");
        let long = format!("{}-{}", "a".repeat(59), "b".repeat(3));
        let name = numbered(&long, 100).unwrap();
        assert_eq!(name.as_str(), format!("{}-100", "a".repeat(59)));
    }
}
