use agentiso_core::{Code, Explain, SnapshotId};
use agentiso_meta::{MetaError, Snapshot};
use uuid::Uuid;

use crate::builders::{State, lineage, memory, snapshot, take};

#[test]
fn a_snapshot_survives_a_round_trip() {
    let state = State::new();
    let web = state.add("web").id;
    let memory = memory();
    let kept = state
        .meta
        .write(|tx| {
            tx.insert_memory(&memory, &[memory.id])?;
            take(tx, web, "s1", Some(memory.id))
        })
        .unwrap();
    assert_eq!(state.meta.read(|state| state.snapshot(kept.id)).unwrap(), kept);
    assert_eq!(state.meta.read(|state| state.find_snapshot(web, "s1")).unwrap(), kept);
    assert_eq!(state.meta.read(|state| state.snapshots(web)).unwrap(), [kept]);
}

#[test]
fn snapshot_names_are_unique_per_workspace() {
    let state = State::new();
    let (web, db) = (state.add("web").id, state.add("db").id);
    state.snap(web, "s1");
    state.snap(db, "s1");
    let disk = state.get(web).disk;
    let refused = state.meta.write(|tx| take(tx, web, "s1", None)).unwrap_err();
    assert_eq!(refused.code(), Code::SnapshotExists);
    assert_eq!(state.get(web).disk, disk, "a rejected snapshot leaves nothing behind");
}

#[test]
fn the_children_of_a_removed_snapshot_move_to_its_parent() {
    let state = State::new();
    let web = state.add("web").id;
    let [first, second, third] = ["s1", "s2", "s3"].map(|name| state.snap(web, name));
    let parent = |id| state.meta.read(|state| state.snapshot(id)).unwrap().parent;
    assert_eq!((parent(first.id), parent(third.id)), (None, Some(second.id)));

    state.meta.write(|tx| tx.remove_snapshot(second.id)).unwrap();
    assert_eq!(parent(third.id), Some(first.id));
    state.meta.write(|tx| tx.remove_snapshot(third.id)).unwrap();
    assert_eq!(state.get(web).position, Some(first.id));
    state.meta.write(|tx| tx.remove_snapshot(first.id)).unwrap();
    assert_eq!(state.get(web).position, None);
    let refused = state.meta.write(|tx| tx.remove_snapshot(first.id)).unwrap_err();
    assert_eq!(refused.code(), Code::SnapshotNotFound);
}

#[test]
fn the_forks_of_a_snapshot_are_listed() {
    let state = State::new();
    let web = state.add("web");
    let (first, second) = (state.snap(web.id, "s1"), state.snap(web.id, "s2"));
    let forks = ["a", "b"]
        .map(|name| state.add_with(name, |fork| fork.lineage = Some(lineage(&web, Some(first.id)))));
    state.add_with("c", |fork| fork.lineage = Some(lineage(&web, None)));
    assert_eq!(state.meta.read(|state| state.forks_of(first.id)).unwrap(), forks);
    assert!(state.meta.read(|state| state.forks_of(second.id)).unwrap().is_empty());
}

#[test]
fn a_snapshot_requires_an_existing_frozen_disk() {
    let state = State::new();
    let web = state.add("web");
    let kept = state.snap(web.id, "s1");
    let insert = |snapshot: &Snapshot| state.meta.write(|tx| tx.insert_snapshot(snapshot)).unwrap_err();

    let writable = snapshot(web.id, "s2", state.get(web.id).disk);
    assert!(matches!(insert(&writable), MetaError::WrongDisk { wanted: "frozen", .. }));
    let good = snapshot(web.id, "s2", kept.disk);
    let no_parent = Snapshot { parent: Some(SnapshotId::from_uuid(Uuid::now_v7())), ..good.clone() };
    assert_eq!(insert(&no_parent).code(), Code::Internal);
    let no_memory = Snapshot { memory: Some(memory().id), ..good.clone() };
    assert_eq!(insert(&no_memory).code(), Code::Internal);
    state.meta.write(|tx| tx.insert_snapshot(&good)).unwrap();
}
