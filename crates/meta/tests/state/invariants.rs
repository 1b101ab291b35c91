//! Random changes, compared with a simple model.

use std::collections::{BTreeMap, BTreeSet};

use agentiso_core::{DiskId, MemoryId, SnapshotId, WorkspaceId};
use agentiso_meta::{Disk, MetaError, PoolMachine, Snapshot, Workspace};
use proptest::prelude::*;

use crate::builders::{State, disk, lineage, memory, pool_machine, snapshot, workspace};

/// A change. Its numbers select among existing objects.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create,
    Fork(usize),
    Snapshot { workspace: usize, with_memory: bool },
    Restore(usize),
    RemoveSnapshot(usize),
    RemoveWorkspace(usize),
    FillPool,
    Claim,
    Flatten(usize),
    RemoveDisk(usize),
    RemoveMemory(usize),
    Collect,
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..1000_usize;
    prop_oneof![
        2 => Just(Step::Create),
        3 => which.clone().prop_map(Step::Fork),
        6 => (which.clone(), any::<bool>())
            .prop_map(|(workspace, with_memory)| Step::Snapshot { workspace, with_memory }),
        3 => which.clone().prop_map(Step::Restore),
        3 => which.clone().prop_map(Step::RemoveSnapshot),
        1 => which.clone().prop_map(Step::RemoveWorkspace),
        2 => Just(Step::FillPool),
        2 => Just(Step::Claim),
        3 => which.clone().prop_map(Step::Flatten),
        3 => which.clone().prop_map(Step::RemoveDisk),
        2 => which.prop_map(Step::RemoveMemory),
        1 => Just(Step::Collect),
    ]
}

/// The expected state.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    workspaces: BTreeMap<WorkspaceId, Workspace>,
    snapshots: BTreeMap<SnapshotId, Snapshot>,
    disks: BTreeMap<DiskId, Disk>,
    memories: BTreeMap<MemoryId, BTreeSet<MemoryId>>,
    pool: Vec<PoolMachine>,
}

fn pick<K: Copy, V>(map: &BTreeMap<K, V>, which: usize) -> Option<K> {
    map.keys().nth(which.checked_rem(map.len())?).copied()
}

impl Model {
    fn disk_is_needed(&self, id: DiskId) -> bool {
        self.workspaces.values().any(|workspace| workspace.disk == id)
            || self.snapshots.values().any(|snapshot| snapshot.disk == id)
            || self.pool.iter().any(|machine| machine.disk == id)
            || self.disks.values().any(|disk| disk.parent == Some(id))
    }

    fn unneeded_disks(&self) -> BTreeSet<DiskId> {
        self.disks.keys().copied().filter(|&id| !self.disk_is_needed(id)).collect()
    }

    fn memory_is_needed(&self, id: MemoryId) -> bool {
        self.snapshots.values().any(|snapshot| snapshot.memory == Some(id))
    }

    fn unneeded_memories(&self) -> BTreeSet<MemoryId> {
        self.memories.keys().copied().filter(|&id| !self.memory_is_needed(id)).collect()
    }

    fn forget_snapshot(&mut self, id: SnapshotId, heir: Option<SnapshotId>) {
        self.snapshots.remove(&id);
        for snapshot in self.snapshots.values_mut().filter(|snapshot| snapshot.parent == Some(id)) {
            snapshot.parent = heir;
        }
        for workspace in self.workspaces.values_mut() {
            if workspace.position == Some(id) {
                workspace.position = heir;
            }
            if let Some(lineage) = workspace.lineage.as_mut().filter(|lineage| lineage.snapshot == Some(id)) {
                lineage.snapshot = None;
            }
        }
    }

    /// Applies a change to the database and the model.
    fn apply(&mut self, state: &State, step: Step) -> Result<(), MetaError> {
        let name = format!("w{}", uuid::Uuid::new_v4().simple());
        match step {
            Step::Create => self.add(state, None, workspace(&name, disk(None).id)),
            Step::Fork(which) => {
                let Some(id) = pick(&self.snapshots, which) else { return Ok(()) };
                let from = self.snapshots[&id].clone();
                let lineage = Some(lineage(&self.workspaces[&from.workspace], Some(id)));
                let fork = Workspace { lineage, position: Some(id), ..workspace(&name, disk(None).id) };
                self.add(state, Some(from.disk), fork)
            }
            Step::Snapshot { workspace, with_memory } => self.take(state, workspace, with_memory),
            Step::Restore(which) => {
                let Some(id) = pick(&self.snapshots, which) else { return Ok(()) };
                let from = self.snapshots[&id].clone();
                let fresh = disk(Some(from.disk));
                state.meta.write(|tx| {
                    tx.insert_disk(&fresh)?;
                    tx.set_disk(from.workspace, fresh.id)?;
                    tx.set_position(from.workspace, Some(id))
                })?;
                let workspace = self.workspaces.get_mut(&from.workspace).unwrap();
                (workspace.disk, workspace.position) = (fresh.id, Some(id));
                self.disks.insert(fresh.id, fresh);
                Ok(())
            }
            Step::RemoveSnapshot(which) => {
                let Some(id) = pick(&self.snapshots, which) else { return Ok(()) };
                self.forget_snapshot(id, self.snapshots[&id].parent);
                state.meta.write(|tx| tx.remove_snapshot(id))
            }
            Step::RemoveWorkspace(which) => {
                let Some(id) = pick(&self.workspaces, which) else { return Ok(()) };
                self.workspaces.remove(&id);
                let its: Vec<_> =
                    self.snapshots.values().filter(|snapshot| snapshot.workspace == id).collect();
                for snapshot in its.iter().map(|snapshot| snapshot.id).collect::<Vec<_>>() {
                    self.forget_snapshot(snapshot, None);
                }
                state.meta.write(|tx| tx.remove_workspace(id))
            }
            Step::FillPool => {
                let fresh = disk(None);
                let machine = pool_machine("small", fresh.id);
                state.meta.write(|tx| {
                    tx.insert_disk(&fresh)?;
                    tx.insert_pool_machine(&machine)
                })?;
                self.disks.insert(fresh.id, fresh);
                self.pool.push(machine);
                Ok(())
            }
            Step::Claim => {
                let claimed = state.meta.write(|tx| {
                    let Some(machine) = tx.claim("small")? else { return Ok(None) };
                    let workspace = Workspace { id: machine.id, ..workspace(&name, machine.disk) };
                    tx.insert_workspace(&workspace)?;
                    Ok(Some(workspace))
                })?;
                let expected = (!self.pool.is_empty()).then(|| self.pool.remove(0));
                assert_eq!(claimed.as_ref().map(|claimed| claimed.id), expected.map(|machine| machine.id));
                self.workspaces.extend(claimed.map(|claimed| (claimed.id, claimed)));
                Ok(())
            }
            Step::Flatten(which) => self.flatten(state, which),
            Step::RemoveDisk(which) => {
                let Some(id) = pick(&self.disks, which) else { return Ok(()) };
                let removed = state.meta.write(|tx| tx.remove_disk(id));
                assert_eq!(removed.is_ok(), !self.disk_is_needed(id), "{removed:?}");
                self.disks.retain(|&disk, _| disk != id || removed.is_err());
                Ok(())
            }
            Step::RemoveMemory(which) => {
                let Some(id) = pick(&self.memories, which) else { return Ok(()) };
                let removed = state.meta.write(|tx| tx.remove_memory(id));
                assert_eq!(removed.is_ok(), !self.memory_is_needed(id), "{removed:?}");
                self.memories.retain(|&memory, _| memory != id || removed.is_err());
                Ok(())
            }
            Step::Collect => {
                state
                    .meta
                    .write(|tx| tx.unneeded_disks()?.iter().try_for_each(|disk| tx.remove_disk(disk.id)))?;
                for id in self.unneeded_disks() {
                    self.disks.remove(&id);
                }
                Ok(())
            }
        }
    }

    fn add(&mut self, state: &State, parent: Option<DiskId>, workspace: Workspace) -> Result<(), MetaError> {
        let fresh = Disk { id: workspace.disk, ..disk(parent) };
        state.meta.write(|tx| {
            tx.insert_disk(&fresh)?;
            tx.insert_workspace(&workspace)
        })?;
        self.disks.insert(fresh.id, fresh);
        self.workspaces.insert(workspace.id, workspace);
        Ok(())
    }

    fn take(&mut self, state: &State, which: usize, with_memory: bool) -> Result<(), MetaError> {
        let Some(id) = pick(&self.workspaces, which) else { return Ok(()) };
        let workspace = self.workspaces.get_mut(&id).unwrap();
        let memory = with_memory.then(memory);
        let taken = Snapshot {
            parent: workspace.position,
            memory: memory.as_ref().map(|memory| memory.id),
            ..snapshot(id, &uuid::Uuid::new_v4().to_string(), workspace.disk)
        };
        // A memory image's pages are in its own pack and in the packs of its parent.
        let before = taken.parent.and_then(|parent| self.snapshots[&parent].memory);
        let mut packs = before.map(|before| self.memories[&before].clone()).unwrap_or_default();
        packs.extend(taken.memory);
        let next = disk(Some(workspace.disk));
        state.meta.write(|tx| {
            tx.freeze_disk(taken.disk)?;
            tx.insert_disk(&next)?;
            tx.set_disk(id, next.id)?;
            if let Some(memory) = &memory {
                tx.insert_memory(memory, &packs.iter().copied().collect::<Vec<_>>())?;
            }
            tx.insert_snapshot(&taken)?;
            tx.set_position(id, Some(taken.id))
        })?;
        self.memories.extend(taken.memory.map(|memory| (memory, packs)));
        (workspace.disk, workspace.position) = (next.id, Some(taken.id));
        self.disks.get_mut(&taken.disk).unwrap().frozen = true;
        self.disks.insert(next.id, next);
        self.snapshots.insert(taken.id, taken);
        Ok(())
    }

    /// Merges a disk's parent into it.
    fn flatten(&mut self, state: &State, which: usize) -> Result<(), MetaError> {
        let Some(id) = pick(&self.disks, which) else { return Ok(()) };
        let Some(parent) = self.disks[&id].parent.map(|parent| self.disks[&parent].clone()) else {
            return Ok(());
        };
        let merged = self.disks.get_mut(&id).unwrap();
        (merged.parent, merged.span) = (parent.parent, merged.span + parent.span);
        state.meta.write(|tx| tx.set_disk_parent(id, merged.parent, merged.span))
    }

    /// Reads the whole database into a model.
    fn read(state: &State) -> Self {
        let read = state.meta.read(|state| {
            let workspaces = state.workspaces()?;
            let mut snapshots = BTreeMap::new();
            for workspace in &workspaces {
                snapshots.extend(state.snapshots(workspace.id)?.into_iter().map(|found| (found.id, found)));
            }
            let mut memories = BTreeMap::new();
            for memory in state.memories()? {
                memories.insert(memory.id, state.packs_of(memory.id)?.into_iter().collect());
            }
            Ok(Self {
                workspaces: workspaces.into_iter().map(|found| (found.id, found)).collect(),
                snapshots,
                disks: state.disks()?.into_iter().map(|found| (found.id, found)).collect(),
                memories,
                pool: state.pool()?,
            })
        });
        read.unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_sequence_of_changes_leaves_a_consistent_state(steps in prop::collection::vec(step(), 1..60)) {
        let state = State::new();
        let mut model = Model::default();
        for step in steps {
            model.apply(&state, step).unwrap();
            prop_assert_eq!(&Model::read(&state), &model, "after {:?}", step);
            let (disks, memories, packs) = state
                .meta
                .read(|state| Ok((state.unneeded_disks()?, state.unneeded_memories()?, state.packs()?)))
                .unwrap();
            prop_assert_eq!(disks.iter().map(|disk| disk.id).collect::<BTreeSet<_>>(), model.unneeded_disks());
            prop_assert_eq!(memories.iter().map(|it| it.id).collect::<BTreeSet<_>>(), model.unneeded_memories());
            prop_assert_eq!(packs.into_iter().collect::<BTreeSet<_>>(), model.memories.values().flatten().copied().collect());
        }
        state.meta.verify().unwrap();
    }

    #[test]
    fn a_change_that_fails_at_its_end_is_rolled_back(steps in prop::collection::vec(step(), 1..20)) {
        let state = State::new();
        let mut model = Model::default();
        for step in steps {
            model.apply(&state, step).unwrap();
        }
        let failed = state.meta.write(|tx| -> Result<(), MetaError> {
            for found in tx.workspaces()? {
                tx.remove_workspace(found.id)?;
            }
            while tx.claim("small")?.is_some() {}
            while let Some(unneeded) = tx.unneeded_disks()?.first() {
                tx.remove_disk(unneeded.id)?;
            }
            assert!(tx.disks()?.is_empty(), "the transaction sees its own changes");
            Err(MetaError::WorkspaceExists { name: "too late".to_owned() })
        });
        prop_assert!(failed.is_err());
        prop_assert_eq!(Model::read(&state), model);
    }
}
