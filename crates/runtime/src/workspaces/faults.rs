//! Every operation, with every use of the database failing in turn: nothing that was answered is lost.

use std::sync::Arc;

use agentiso_core::action::SnapshotKind;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Failure, SnapshotId, WorkspaceId};
use agentiso_meta::Gate;
use agentiso_testing::FailAt;

use super::adopt::tests::World;
use super::{RemoveRequest, SnapshotRequest, Workspaces};

/// What was answered before, and must be there afterwards.
struct Promise {
    workspaces: Vec<WorkspaceId>,
    snapshots: Vec<SnapshotId>,
}

impl Promise {
    fn of(workspaces: &Workspaces) -> Self {
        let all = workspaces.meta.read(|read| read.workspaces()).unwrap();
        let snapshots = |id| workspaces.meta.read(|read| read.snapshots(id)).unwrap();
        let snapshots = all.iter().flat_map(|one| snapshots(one.id)).map(|one| one.id).collect();
        Self { workspaces: all.into_iter().map(|one| one.id).collect(), snapshots }
    }

    fn without(mut self, workspace: Option<WorkspaceId>, snapshots: &[SnapshotId]) -> Self {
        self.workspaces.retain(|&id| Some(id) != workspace);
        self.snapshots.retain(|id| !snapshots.contains(id));
        self
    }

    /// Every row is there, and every file that it needs.
    fn assert_kept(&self, workspaces: &Workspaces, context: &str) {
        let meta = &workspaces.meta;
        meta.verify().unwrap();
        let chain_is_there = |disk| {
            for link in meta.read(|read| read.chain(disk)).unwrap() {
                let path = workspaces.installation.disk_path(link.id);
                assert!(path.exists(), "{context}: {} is missing", path.display());
            }
        };
        for &id in &self.workspaces {
            let found = meta.read(|read| read.workspace_if_known(id)).unwrap();
            chain_is_there(found.unwrap_or_else(|| panic!("{context}: a workspace is gone")).disk);
        }
        for &id in &self.snapshots {
            let found = meta.read(|read| read.snapshot_if_known(id)).unwrap();
            let snapshot = found.unwrap_or_else(|| panic!("{context}: a snapshot is gone"));
            chain_is_there(snapshot.disk);
            if let Some(memory) = snapshot.memory {
                let dir = workspaces.installation.paths.memory_dir().join(memory.to_string());
                assert!(dir.join("pack").exists(), "{context}: the memory of a snapshot is gone");
            }
        }
    }
}

/// What is done. All of it works on stopped workspaces.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Snapshot,
    RemoveSnapshot,
    Rename,
    Remove,
    Maintain,
    Recover,
    Sweep,
}

impl Operation {
    const ALL: [Self; 7] = [
        Self::Snapshot,
        Self::RemoveSnapshot,
        Self::Rename,
        Self::Remove,
        Self::Maintain,
        Self::Recover,
        Self::Sweep,
    ];

    async fn run(self, on: &Workspaces, web: WorkspaceId) -> Result<(), Failure> {
        match self {
            Self::Snapshot => {
                let request = SnapshotRequest {
                    workspace: web,
                    name: "third".parse().unwrap(),
                    kind: SnapshotKind::User,
                    description: String::new(),
                    memory: false,
                };
                on.snapshot(&request).await.map(drop)
            }
            Self::RemoveSnapshot => {
                let snapshots = on.meta.read(|read| read.snapshots(web))?;
                on.remove_snapshot(web, snapshots[0].id).await
            }
            Self::Rename => on.rename(web, &"renamed".parse().unwrap()).await.map(drop),
            Self::Remove => on.remove(&RemoveRequest { workspace: web, force: false }).await,
            Self::Maintain => {
                let progress: Arc<dyn Progress> = Arc::new(Silent);
                on.maintain(&progress).await.map(drop)
            }
            Self::Recover => on.recover().await,
            Self::Sweep => on.remove_unneeded(),
        }
    }
}

/// How the database fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Once,
    FromThenOn,
}

#[tokio::test]
async fn nothing_answered_is_lost_when_any_use_of_the_database_fails() {
    let mut failures = 0;
    for operation in Operation::ALL {
        for fault in [Fault::Once, Fault::FromThenOn] {
            for nth in 1.. {
                let mut world = World::new().await;
                let web = world.add("web");
                world.snapshot(&web, "first");
                world.snapshot(&web, "second");
                world.add("other");
                // A command that died after it had committed: its disks are known, and must stay.
                world.leave_behind(&web);
                let gone = match operation {
                    Operation::Remove => world.snapshots_of(&web),
                    Operation::RemoveSnapshot => world.snapshots_of(&web)[..1].to_vec(),
                    _ => Vec::new(),
                };
                let removed = matches!(operation, Operation::Remove).then_some(web.id);
                let promise = Promise::of(&world.workspaces).without(removed, &gone);

                let faults = FailAt::new(nth, matches!(fault, Fault::FromThenOn));
                world.guard(Gate::new({
                    let faults = faults.clone();
                    move || faults.admits()
                }));
                let done = operation.run(&world.workspaces, web.id).await;
                let reached = faults.disarm();
                let context = format!("{operation:?}, {fault:?} at {nth}: {done:?}");
                promise.assert_kept(&world.workspaces, &context);
                if matches!(operation, Operation::Rename) {
                    let name = world.workspaces.info(web.id).unwrap().name;
                    assert_eq!(name.as_str() == "renamed", done.is_ok(), "{context}");
                }
                // The next process finishes or undoes it.
                world.reopen().await;
                promise.assert_kept(&world.workspaces, &context);
                if !reached {
                    assert!(done.is_ok(), "{context}");
                    break;
                }
                failures += 1;
            }
        }
    }
    assert!(failures > 50, "only {failures} faults were reached");
}
