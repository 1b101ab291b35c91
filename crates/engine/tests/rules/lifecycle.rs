//! Starting, stopping, suspending, snapshots and sizes.

use agentiso_core::Code;
use agentiso_testing::fake::HostCall;
use serde_json::{Value, json};

use crate::world::{World, user};

fn one() -> Value {
    json!({ "workspace_id": "one" })
}

async fn state(world: &World) -> Value {
    world.ok(&user(), "workspace_info", one()).await["state"].clone()
}

#[tokio::test]
async fn starting_and_stopping_twice_is_like_once() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let started = world.ok(&user(), "workspace_start", one()).await;
    assert_eq!((&started["state"], &started["note"]), (&json!("running"), &json!("it was running already")));
    world.ok(&user(), "workspace_stop", one()).await;
    let stopped = world.ok(&user(), "workspace_stop", one()).await;
    assert_eq!((&stopped["state"], &stopped["note"]), (&json!("stopped"), &json!("it was not running")));
}

#[tokio::test]
async fn a_suspended_workspace_continues_where_it_was() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "exec_start", json!({ "workspace_id": "one", "command": "sleep 1000" })).await;
    world.ok(&user(), "workspace_suspend", one()).await;
    assert_eq!(
        (state(&world).await, world.host.kept().len()),
        (json!("suspended"), 3),
        "no machine, two disks, a memory"
    );
    assert_eq!(world.ok(&user(), "workspace_suspend", one()).await["note"], "it was suspended already");
    world.ok(&user(), "workspace_resume", one()).await;
    let jobs = world.ok(&user(), "exec_list", one()).await;
    assert_eq!(jobs["jobs"][0]["running"], true);
    let snapshots = world.ok(&user(), "snapshot_list", one()).await;
    assert_eq!(snapshots["snapshots"], json!([]), "what was kept for it is gone");
}

#[tokio::test]
async fn a_suspended_workspace_can_be_stopped_by_force_alone() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "workspace_suspend", one()).await;
    assert_eq!(world.ok(&user(), "workspace_stop", one()).await["state"], "suspended");
    let stopped = world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one", "force": true })).await;
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(state(&world).await, "stopped");
}

#[tokio::test]
async fn a_workspace_that_cannot_be_suspended_goes_on() {
    for call in [HostCall::Snapshot, HostCall::Stop] {
        let world = World::new().await;
        world.create(&user(), "one").await;
        world.host.faults().fail_once(call, Code::DiskFull);
        world.refused(&user(), "workspace_suspend", one(), Code::DiskFull).await;
        assert_eq!(state(&world).await, "running", "{call:?}");
        let snapshots = world.ok(&user(), "snapshot_list", one()).await;
        assert_eq!(snapshots["snapshots"], json!([]), "{call:?} left something");
        world.ok(&user(), "workspace_suspend", one()).await;
    }
}

#[tokio::test]
async fn a_workspace_that_cannot_be_resumed_stays_suspended() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.sh(&user(), "one", "echo kept > /root/kept").await;
    world.ok(&user(), "workspace_suspend", one()).await;
    world.host.faults().fail_once(HostCall::Restore, Code::OutOfMemory);
    world.refused(&user(), "workspace_resume", one(), Code::OutOfMemory).await;
    assert_eq!(state(&world).await, "suspended");
    assert_eq!(world.sh(&user(), "one", "cat /root/kept").await, "kept\n");
}

#[tokio::test]
async fn a_fork_of_a_suspended_workspace_continues_too() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "exec_start", json!({ "workspace_id": "one", "command": "sleep 1000" })).await;
    world.ok(&user(), "workspace_suspend", one()).await;
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "one", "new_name": "fork" })).await;
    let jobs = world.ok(&user(), "exec_list", json!({ "workspace_id": "fork" })).await;
    assert_eq!(jobs["jobs"][0]["running"], true);
    assert_eq!(state(&world).await, "suspended", "the source stays as it is");
}

#[tokio::test]
async fn names_of_snapshots_that_mean_something_are_refused() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    for name in ["now", "", "a b", "-x"] {
        let arguments = json!({ "workspace_id": "one", "name": name });
        world.refused(&user(), "snapshot_create", arguments, Code::InvalidArgument).await;
    }
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "suspended" })).await;
}

#[tokio::test]
async fn the_snapshot_of_a_suspended_workspace_is_listed_only_by_its_kind_and_left_alone() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "mine" })).await;
    world.ok(&user(), "workspace_suspend", one()).await;
    let listed = world.ok(&user(), "snapshot_list", one()).await["snapshots"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["name"]), (1, &json!("mine")));
    let kind = json!({ "workspace_id": "one", "kind": "suspend" });
    let listed = world.ok(&user(), "snapshot_list", kind).await["snapshots"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["kind"]), (1, &json!("suspend")));
    for action in ["snapshot_restore", "snapshot_delete", "workspace_fork"] {
        let arguments = json!({ "workspace_id": "one", "snapshot_name": listed[0]["name"] });
        world.refused(&user(), action, arguments, Code::InvalidArgument).await;
    }
    assert_eq!(state(&world).await, "suspended");
}

#[tokio::test]
async fn a_snapshot_restores_and_a_failed_restore_changes_nothing() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.sh(&user(), "one", "echo one > /root/file").await;
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
    world.sh(&user(), "one", "echo two > /root/file").await;
    let restore = json!({ "workspace_id": "one", "snapshot_name": "s" });
    world.host.faults().fail_once(HostCall::Restore, Code::DataDamaged);
    world.refused(&user(), "snapshot_restore", restore.clone(), Code::DataDamaged).await;
    assert_eq!(world.sh(&user(), "one", "cat /root/file").await, "two\n");
    world.ok(&user(), "snapshot_restore", restore).await;
    assert_eq!(world.sh(&user(), "one", "cat /root/file").await, "one\n");
}

#[tokio::test]
async fn a_snapshot_that_forks_need_stays() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
    let fork = json!({ "workspace_id": "one", "snapshot_name": "s", "new_name": "fork" });
    world.ok(&user(), "workspace_fork", fork).await;
    let delete = json!({ "workspace_id": "one", "snapshot_name": "s" });
    world.refused(&user(), "snapshot_delete", delete.clone(), Code::SnapshotInUse).await;
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "fork" })).await;
    world.ok(&user(), "snapshot_delete", delete).await;
}

#[tokio::test]
async fn a_new_size_holds_from_the_next_start_on() {
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    let update = json!({ "workspace_id": "one", "memory_mb": 1024, "vcpus": 2 });
    let updated = world.ok(&user(), "workspace_update", update.clone()).await;
    assert_eq!(updated["next_resources"]["memory_mb"], 1024);
    assert_eq!(world.workspace(id).await.resources.memory_mb, 512);
    world.ok(&user(), "workspace_stop", one()).await;
    world.ok(&user(), "workspace_start", one()).await;
    let resources = world.workspace(id).await.resources;
    assert_eq!((resources.memory_mb, resources.vcpus), (1024, 2));
    world.ok(&user(), "workspace_stop", one()).await;
    world.ok(&user(), "workspace_update", json!({ "workspace_id": "one", "memory_mb": 512 })).await;
    assert_eq!(world.workspace(id).await.resources.memory_mb, 512, "one that is stopped has it at once");
    for bad in [json!({ "memory_mb": 1 }), json!({ "vcpus": 0 }), json!({ "memory_mb": 1_000_000 })] {
        let mut arguments = one();
        arguments.as_object_mut().unwrap().extend(bad.as_object().unwrap().clone());
        world.refused(&user(), "workspace_update", arguments, Code::InvalidArgument).await;
    }
}

#[tokio::test]
async fn labels_are_merged_and_checked() {
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    let label = |labels: Value| json!({ "workspace_id": "one", "labels": labels });
    world.ok(&user(), "workspace_update", label(json!({ "a": "1", "b": "2" }))).await;
    world.ok(&user(), "workspace_update", label(json!({ "a": null, "c": "3" }))).await;
    let labels = world.stored(id).await.labels;
    assert_eq!(
        labels.into_iter().collect::<Vec<_>>(),
        [("b", "2"), ("c", "3")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    world.refused(&user(), "workspace_update", label(json!({ "a b": "1" })), Code::InvalidArgument).await;
    let listed = world.ok(&user(), "workspace_list", json!({ "labels": { "c": "3" } })).await;
    assert_eq!(listed["count"], 1);
    let listed = world.ok(&user(), "workspace_list", json!({ "labels": { "c": "4" } })).await;
    assert_eq!(listed["count"], 0);
}

#[tokio::test]
async fn a_name_that_is_taken_says_by_what_to_its_owner_alone() {
    let world = World::new().await;
    let (owner, other) = (world.session("owner").await, world.session("other").await);
    let id = world.create(&owner, "taken").await;
    let create = || json!({ "name": "taken" });
    let mine = world.refused(&owner, "workspace_create", create(), Code::WorkspaceExists).await;
    assert!(mine.message().contains(&id.to_string()), "{mine}");
    let theirs = world.refused(&other, "workspace_create", create(), Code::WorkspaceExists).await;
    assert!(!theirs.message().contains(&id.to_string()), "{theirs}");
}

#[tokio::test]
async fn the_engine_ends_with_or_without_its_machines() {
    use agentiso_engine::Shutdown;
    let mut world = World::new().await;
    world.create(&user(), "one").await;
    world.host.fill_pool(2);
    world.engine.shut_down(Shutdown::LeaveMachines).await;
    assert_eq!(world.host.machines(), 1);
    world.reopen().await;
    assert_eq!(world.ok(&user(), "server_status", json!({})).await["pool"], 0, "nobody could take them");
    world.engine.shut_down(Shutdown::StopMachines(std::time::Duration::from_secs(1))).await;
    assert_eq!(world.host.machines(), 0);
    world.reopen().await;
    assert_eq!(state(&world).await, "stopped");
}

#[tokio::test]
async fn a_create_takes_a_ready_machine_unless_it_is_told_not_to() {
    let world = World::new().await;
    world.host.fill_pool(2);
    let made = async |arguments: Value| {
        let made = world.ok(&user(), "workspace_create", arguments).await;
        (made["from_pool"].clone(), made["tier"].clone())
    };
    assert_eq!(made(json!({})).await, (json!(true), json!("pool")));
    assert_eq!(made(json!({ "no_pool": true })).await.0, false);
    assert_eq!(made(json!({ "cold": true })).await, (json!(false), json!("cold")));
    assert_eq!(world.ok(&user(), "server_status", json!({})).await["pool"], 1);
}

#[tokio::test]
async fn names_that_are_none_are_refused_and_leave_nothing() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let kept = world.host.kept();
    let long = "x".repeat(64);
    let hostile = [
        "", " ", "-x", "x-", "a_b", "a.b", "../x", "/etc", "a b", "\u{e4}", "a\nb", "a\0b", "$(id)",
        "--force", &long,
    ];
    for name in hostile {
        for (action, arguments) in [
            ("workspace_create", json!({ "name": name })),
            ("workspace_rename", json!({ "workspace_id": "one", "new_name": name })),
            ("workspace_fork", json!({ "workspace_id": "one", "new_name": name })),
            ("workspace_fork", json!({ "workspace_id": "one", "name_prefix": name, "count": 2 })),
        ] {
            world.refused(&user(), action, arguments, Code::InvalidArgument).await;
        }
        world
            .refused(&user(), "workspace_info", json!({ "workspace_id": name }), Code::WorkspaceNotFound)
            .await;
    }
    for image in ["", "../x", "/etc/passwd", "a b", "x\0"] {
        let create = json!({ "base_image": image });
        world.refused(&user(), "workspace_create", create, Code::InvalidArgument).await;
    }
    assert_eq!((world.names().await, world.host.kept()), (vec!["one".to_owned()], kept));
}
