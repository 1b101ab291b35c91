use agentiso_core::DiskId;
use agentiso_meta::{Disk, DiskUsers, MetaError};

use crate::builders::{State, disk, pool_machine};

fn ids(disks: Vec<Disk>) -> Vec<DiskId> {
    disks.into_iter().map(|disk| disk.id).collect()
}

/// Adds a chain of disks, each backed by the previous one.
fn tower<const N: usize>(state: &State) -> [DiskId; N] {
    let mut below = None;
    [(); N].map(|()| {
        let next = Disk { frozen: true, ..disk(below) };
        below = Some(next.id);
        state.meta.write(|tx| tx.insert_disk(&next)).unwrap();
        next.id
    })
}

#[test]
fn a_chain_ends_at_the_disk_without_a_parent() {
    let state = State::new();
    let [bottom, middle, top] = tower(&state);
    let chain = |id| state.meta.read(|state| state.chain(id));
    assert_eq!(ids(chain(top).unwrap()), [top, middle, bottom]);
    assert_eq!(ids(chain(bottom).unwrap()), [bottom]);
    assert!(matches!(chain(disk(None).id), Err(MetaError::Missing { what: "disk", .. })));
}

#[test]
fn a_merged_disk_gets_the_parent_of_its_parent() {
    let state = State::new();
    let [bottom, middle, top] = tower(&state);
    state.meta.write(|tx| tx.set_disk_parent(top, Some(bottom), 2)).unwrap();
    assert_eq!(ids(state.meta.read(|state| state.chain(top)).unwrap()), [top, bottom]);
    assert_eq!(state.meta.read(|state| state.disk(top)).unwrap().span, 2);
    assert_eq!(ids(state.meta.read(|state| state.unneeded_disks()).unwrap()), [middle, top]);
    let mut children = ids(state.meta.read(|state| state.children_of(bottom)).unwrap());
    children.sort();
    assert_eq!(children, [middle, top]);
}

#[test]
fn a_disk_cannot_be_its_own_ancestor() {
    let state = State::new();
    let [bottom, middle, top] = tower(&state);
    for (disk, parent) in [(bottom, top), (bottom, middle), (middle, middle)] {
        let refused = state.meta.write(|tx| tx.set_disk_parent(disk, Some(parent), 1)).unwrap_err();
        assert!(matches!(refused, MetaError::WrongDisk { .. }), "{refused}");
    }
    assert_eq!(state.meta.read(|state| state.chain(top)).unwrap().len(), 3);
}

#[test]
fn a_disk_referenced_by_a_workspace_snapshot_pool_machine_or_child_cannot_be_removed() {
    let state = State::new();
    let web = state.add("web");
    let kept = state.snap(web.id, "s1");
    let writes = state.get(web.id).disk;
    let pooled = disk(None);
    let machine = pool_machine("small", pooled.id);
    let [bottom, top] = tower(&state);
    state
        .meta
        .write(|tx| {
            tx.insert_disk(&pooled)?;
            tx.insert_pool_machine(&machine)
        })
        .unwrap();

    assert_eq!(ids(state.meta.read(|state| state.unneeded_disks()).unwrap()), [top]);
    for needed in [writes, kept.disk, pooled.id, bottom] {
        let refused = state.meta.write(|tx| tx.remove_disk(needed)).unwrap_err();
        assert!(matches!(refused, MetaError::Needed { what: "disk", .. }), "{refused}");
    }
    state.meta.write(|tx| tx.remove_disk(top)).unwrap();
    state.meta.write(|tx| tx.remove_disk(bottom)).unwrap();
    let refused = state.meta.write(|tx| tx.remove_disk(bottom)).unwrap_err();
    assert!(matches!(refused, MetaError::Missing { .. }));

    let users = |id| state.meta.read(|state| state.disk_users(id)).unwrap();
    let none = DiskUsers::default();
    assert_eq!(users(writes), DiskUsers { workspaces: vec![web.id], ..none.clone() });
    assert_eq!(users(pooled.id), DiskUsers { pool: vec![machine.id], ..none.clone() });
    assert_eq!(
        users(kept.disk),
        DiskUsers { snapshots: vec![kept.id], children: vec![writes], ..none.clone() }
    );
    assert!(!users(kept.disk).serves_only_one_disk());
    state.meta.write(|tx| tx.remove_snapshot(kept.id)).unwrap();
    assert!(users(kept.disk).serves_only_one_disk());
}
