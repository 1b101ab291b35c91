use agentiso_core::{Code, Explain, WorkspaceId};
use agentiso_meta::{MetaError, WorkspaceState};
use serde_json::json;
use uuid::Uuid;

use crate::builders::{State, disk, lineage, now, workspace};

#[test]
fn a_workspace_survives_a_round_trip() {
    let state = State::new();
    let source = state.add("source");
    let snapshot = state.snap(source.id, "s1");
    let fork = state.add_with("fork", |fork| {
        fork.state = WorkspaceState::Running { machine: json!({ "pid": 7, "hardware": ["a", null, 1.5] }) };
        fork.position = Some(snapshot.id);
        fork.lineage = Some(lineage(&source, Some(snapshot.id)));
        fork.from_pool = true;
    });
    assert_eq!(state.get(fork.id), fork);
    assert_eq!(state.reopen().read(|state| state.workspace(fork.id)).unwrap(), fork);
    assert_eq!((source.depth(), fork.depth()), (0, 1));
}

#[test]
fn workspaces_are_listed_oldest_first() {
    let state = State::new();
    let younger = state.add("a");
    let older =
        state.add_with("b", |workspace| workspace.created = now() - jiff::SignedDuration::from_hours(1));
    assert_eq!(state.meta.read(|state| state.workspaces()).unwrap(), [older, younger]);
}

#[test]
fn workspace_names_are_unique() {
    let state = State::new();
    let first = state.add("web");
    let refused = state
        .meta
        .write(|tx| {
            let disk = disk(None);
            tx.insert_disk(&disk)?;
            tx.insert_workspace(&workspace("web", disk.id))
        })
        .unwrap_err();
    assert_eq!(refused.code(), Code::WorkspaceExists);
    assert_eq!(state.meta.read(|state| state.workspaces()).unwrap(), [first]);
    assert!(
        state.meta.read(|state| state.unneeded_disks()).unwrap().is_empty(),
        "its disk must be rolled back too"
    );
}

#[test]
fn renaming_a_workspace_frees_the_old_name() {
    let state = State::new();
    let (web, db) = (state.add("web"), state.add("db"));
    let rename = |id, name: &str| state.meta.write(|tx| tx.rename_workspace(id, &name.parse().unwrap()));
    assert_eq!(rename(web.id, "db").unwrap_err().code(), Code::WorkspaceExists);
    rename(web.id, "web").unwrap();
    rename(web.id, "front").unwrap();
    rename(db.id, "web").unwrap();
    assert_eq!(state.find("front").unwrap().id, web.id);
    assert_eq!(state.find("web").unwrap().id, db.id);
}

#[test]
fn a_workspace_can_run_and_stop() {
    let state = State::new();
    let id = state.add("web").id;
    let machine = json!({ "pid": 12 });
    state.meta.write(|tx| tx.set_running(id, &machine)).unwrap();
    assert_eq!(state.get(id).machine(), Some(&machine));
    state.meta.write(|tx| tx.set_stopped(id, Some("the host rebooted"))).unwrap();
    assert_eq!(state.get(id).state, WorkspaceState::Stopped { reason: Some("the host rebooted".to_owned()) });
    state.meta.write(|tx| tx.set_running(id, &machine)).unwrap();
    state.meta.write(|tx| tx.set_stopped(id, None)).unwrap();
    assert_eq!(state.get(id).state, WorkspaceState::Stopped { reason: None });
    state.meta.write(|tx| tx.set_tier(id, "cold")).unwrap();
    assert_eq!(state.get(id).tier, "cold");
}

#[test]
fn a_workspace_cannot_use_a_frozen_missing_or_foreign_disk() {
    let state = State::new();
    let (web, db) = (state.add("web"), state.add("db"));
    let kept = state.snap(web.id, "s1").disk;
    let set = |disk| state.meta.write(|tx| tx.set_disk(web.id, disk)).unwrap_err();
    assert!(matches!(set(kept), MetaError::WrongDisk { wanted: "writable", .. }));
    assert!(matches!(set(disk(None).id), MetaError::Missing { what: "disk", .. }));
    assert_eq!(set(db.disk).code(), Code::Internal);
    assert_ne!(state.get(web.id).disk, db.disk);
}

#[test]
fn removing_a_workspace_removes_its_snapshots_and_keeps_the_lineage_of_forks() {
    let state = State::new();
    let source = state.add("source");
    let snapshot = state.snap(source.id, "s1");
    let fork = state.add_with("fork", |fork| {
        fork.position = Some(snapshot.id);
        fork.lineage = Some(lineage(&source, Some(snapshot.id)));
    });
    state.meta.write(|tx| tx.remove_workspace(source.id)).unwrap();
    let left = state.get(fork.id);
    assert_eq!(left.position, None);
    assert_eq!(left.lineage.unwrap(), agentiso_meta::Lineage { snapshot: None, ..fork.lineage.unwrap() });
    let gone = state.meta.read(|state| state.snapshot(snapshot.id)).unwrap_err();
    assert_eq!(gone.code(), Code::SnapshotNotFound);
    state.meta.verify().unwrap();
}

#[test]
fn unknown_objects_cannot_be_changed() {
    let state = State::new();
    let id = WorkspaceId::from_uuid(Uuid::now_v7());
    let nobody = "nobody".parse().unwrap();
    let attempts = [
        state.meta.write(|tx| tx.remove_workspace(id)),
        state.meta.write(|tx| tx.rename_workspace(id, &nobody)),
        state.meta.write(|tx| tx.set_running(id, &json!({}))),
        state.meta.write(|tx| tx.set_stopped(id, None)),
        state.meta.write(|tx| tx.set_position(id, None)),
    ];
    for attempt in attempts {
        assert_eq!(attempt.unwrap_err().code(), Code::WorkspaceNotFound);
    }
}
