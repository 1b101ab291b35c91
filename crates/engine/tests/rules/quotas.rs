//! How much a session, and all of them together, may have.

use agentiso_core::Code;
use agentiso_engine::Caller;
use agentiso_testing::fake::HostCall;
use serde_json::{Value, json};

use crate::world::{World, user};

/// What a session uses.
async fn usage(world: &World, caller: &Caller) -> Value {
    world.ok(caller, "server_status", json!({})).await["usage"].clone()
}

#[tokio::test]
async fn a_session_may_have_so_many_workspaces_and_destroying_one_makes_room() {
    let world = World::with(|settings| settings.session_quota.workspaces = 2).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.create(&session, "two").await;
    let failure =
        world.refused(&session, "workspace_create", json!({ "name": "three" }), Code::QuotaExceeded).await;
    assert!(failure.remedy().unwrap().contains("sessions.max_workspaces"), "{failure:?}");
    assert_eq!(world.names().await, ["one", "two"]);
    world.ok(&session, "workspace_destroy", json!({ "workspace_id": "one" })).await;
    world.create(&session, "three").await;
    assert_eq!(usage(&world, &session).await["workspaces"], 2);
}

#[tokio::test]
async fn each_kind_of_quota_refuses_what_would_exceed_it() {
    let world = World::with(|settings| {
        settings.session_quota.memory_mb = 1024;
        settings.session_quota.disk_gb = 30;
        settings.session_quota.snapshots = 1;
    })
    .await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let before = usage(&world, &session).await;
    for (action, arguments, key) in [
        ("workspace_create", json!({ "memory_mb": 513 }), "sessions.max_memory_mb"),
        ("workspace_create", json!({ "disk_gb": 21 }), "sessions.max_disk_gb"),
        ("workspace_fork", json!({ "workspace_id": "one", "count": 2 }), "sessions.max_memory_mb"),
        ("workspace_grow", json!({ "workspace_id": "one", "disk_gb": 31 }), "sessions.max_disk_gb"),
        ("workspace_update", json!({ "workspace_id": "one", "memory_mb": 1025 }), "sessions.max_memory_mb"),
    ] {
        let failure = world.refused(&session, action, arguments, Code::QuotaExceeded).await;
        assert!(failure.remedy().unwrap().contains(key), "{action}: {failure:?}");
        assert_eq!(usage(&world, &session).await, before, "{action}");
    }
    world.ok(&session, "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
    let second = json!({ "workspace_id": "one", "name": "t" });
    world.refused(&session, "snapshot_create", second, Code::QuotaExceeded).await;
    world.ok(&session, "snapshot_delete", json!({ "workspace_id": "one", "snapshot_name": "s" })).await;
    world.ok(&session, "snapshot_create", json!({ "workspace_id": "one", "name": "t" })).await;
    assert_eq!(usage(&world, &session).await["snapshots"], 1);
}

#[tokio::test]
async fn what_is_exactly_allowed_is_allowed() {
    let world = World::with(|settings| {
        settings.session_quota.workspaces = 3;
        settings.session_quota.memory_mb = 3 * 512;
        settings.session_quota.disk_gb = 30;
    })
    .await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.ok(&session, "workspace_fork", json!({ "workspace_id": "one", "count": 2 })).await;
    let full = json!({ "workspaces": 3, "memory_mb": 1536, "disk_gb": 30, "snapshots": 0 });
    assert_eq!(usage(&world, &session).await, full);
}

#[tokio::test]
async fn the_installation_has_a_limit_that_holds_for_the_user_too() {
    let world = World::with(|settings| settings.limits.max_workspaces = 2).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.create(&user(), "two").await;
    for caller in [&session, &user()] {
        for (action, arguments) in
            [("workspace_create", json!({})), ("workspace_fork", json!({ "workspace_id": "one" }))]
        {
            let failure = world.refused(caller, action, arguments, Code::QuotaExceeded).await;
            assert!(failure.remedy().unwrap().contains("limits.max_workspaces"), "{failure:?}");
        }
    }
}

#[tokio::test]
async fn the_user_has_no_quota_of_a_session() {
    let world = World::with(|settings| settings.session_quota.workspaces = 0).await;
    world.create(&user(), "one").await;
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
}

#[tokio::test]
async fn two_who_ask_at_once_do_not_both_get_the_last() {
    let world = World::with(|settings| settings.session_quota.workspaces = 1).await;
    let session = world.session("agent").await;
    let hang = world.host.faults().hang(HostCall::Create);
    let first = world.call(&session, "workspace_create", json!({ "name": "first" }));
    let second = async {
        hang.reached().await;
        let refused =
            world.refused(&session, "workspace_create", json!({ "name": "second" }), Code::QuotaExceeded);
        let failure = refused.await;
        assert!(failure.message().contains("1 are used"), "what is being made counts: {failure}");
        hang.release();
    };
    let (first, ()) = tokio::join!(first, second);
    first.unwrap();
    assert_eq!(world.names().await, ["first"]);
}

#[tokio::test]
async fn the_last_place_of_the_installation_is_reserved_across_sessions() {
    let world = World::with(|settings| settings.limits.max_workspaces = 1).await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    let hang = world.host.faults().hang(HostCall::Create);
    let first = world.call(&one, "workspace_create", json!({}));
    let second = async {
        hang.reached().await;
        world.refused(&other, "workspace_create", json!({}), Code::QuotaExceeded).await;
        hang.release();
    };
    let (first, ()) = tokio::join!(first, second);
    first.unwrap();
}

#[tokio::test]
async fn what_failed_gives_its_room_back() {
    let world = World::with(|settings| {
        settings.session_quota.workspaces = 2;
        settings.session_quota.snapshots = 1;
        settings.session_quota.disk_gb = 25;
    })
    .await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let faults = world.host.faults();
    for (call, action, arguments) in [
        (HostCall::Create, "workspace_create", json!({ "name": "two" })),
        (HostCall::Fork, "workspace_fork", json!({ "workspace_id": "one", "new_name": "two" })),
        (HostCall::Snapshot, "snapshot_create", json!({ "workspace_id": "one", "name": "s" })),
        (HostCall::Grow, "workspace_grow", json!({ "workspace_id": "one", "disk_gb": 15 })),
    ] {
        faults.fail(call, Code::DiskFull);
        for _ in 0..3 {
            world.refused(&session, action, arguments.clone(), Code::DiskFull).await;
        }
        faults.clear(call);
    }
    world.ok(&session, "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
    world.ok(&session, "workspace_grow", json!({ "workspace_id": "one", "disk_gb": 15 })).await;
    world.ok(&session, "workspace_create", json!({ "name": "two" })).await;
}

#[tokio::test]
async fn forks_that_failed_do_not_count() {
    let world = World::with(|settings| settings.session_quota.workspaces = 4).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.host.faults().fail_nth(HostCall::ForkOne, 2, Code::OutOfMemory);
    let forked = world.ok(&session, "workspace_fork", json!({ "workspace_id": "one", "count": 3 })).await;
    assert_eq!((&forked["success_count"], &forked["failure_count"]), (&json!(2), &json!(1)));
    assert_eq!(forked["failures"][0]["code"], "out_of_memory", "the cause is told: {forked}");
    assert_eq!(usage(&world, &session).await["workspaces"], 3);
    world.ok(&session, "workspace_fork", json!({ "workspace_id": "one", "count": 1 })).await;
}

#[tokio::test]
async fn all_or_nothing_makes_all_or_nothing() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let kept = world.host.kept();
    world.host.faults().fail_nth(HostCall::ForkOne, 3, Code::OutOfMemory);
    let arguments = json!({ "workspace_id": "one", "count": 3, "all_or_nothing": true });
    world.refused(&session, "workspace_fork", arguments, Code::OutOfMemory).await;
    assert_eq!(world.names().await, ["one"]);
    assert_eq!(world.host.kept(), kept);
}

#[tokio::test]
async fn taking_over_counts_against_the_one_who_takes() {
    let world = World::with(|settings| settings.session_quota.workspaces = 1).await;
    let (rich, poor) = (world.session("rich").await, world.session("poor").await);
    world.create(&rich, "own").await;
    let orphan = world.create(&user(), "orphan").await;
    for (action, arguments) in [
        ("workspace_adopt", json!({ "workspace_id": "orphan" })),
        ("exec", json!({ "workspace_id": "orphan", "command": "true" })),
    ] {
        world.refused(&rich, action, arguments, Code::QuotaExceeded).await;
        assert_eq!(world.owner(orphan).await, None, "{action}");
    }
    let to_rich = json!({ "workspace_id": "orphan", "session_id": rich.session.unwrap().to_string() });
    world.refused(&user(), "workspace_grant", to_rich, Code::QuotaExceeded).await;
    world.ok(&poor, "workspace_adopt", json!({ "workspace_id": "orphan" })).await;
    assert_eq!(world.owner(orphan).await, poor.session);
}

#[tokio::test]
async fn a_stopped_workspace_counts_like_a_running_one() {
    let world = World::with(|settings| settings.session_quota.memory_mb = 512).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.ok(&session, "workspace_stop", json!({ "workspace_id": "one" })).await;
    world.refused(&session, "workspace_create", json!({}), Code::QuotaExceeded).await;
}

#[tokio::test]
async fn a_create_that_nobody_waits_for_is_undone_and_its_room_is_free() {
    let world = World::with(|settings| settings.session_quota.workspaces = 1).await;
    let session = world.session("agent").await;
    let hang = world.host.faults().hang(HostCall::Create);
    {
        let abandoned = world.call(&session, "workspace_create", json!({ "name": "abandoned" }));
        tokio::select! {
            done = abandoned => panic!("{done:?}"),
            () = hang.reached() => {}
        }
    }
    hang.release();
    world.host.faults().clear(HostCall::Create);
    world
        .until(async |world| {
            world.host.faults().count(HostCall::Remove) > 0 && world.names().await.is_empty()
        })
        .await;
    world
        .until(async |world| {
            world.call(&session, "workspace_create", json!({ "name": "next" })).await.is_ok()
        })
        .await;
    assert_eq!(world.names().await, ["next"]);
}

#[tokio::test]
async fn a_larger_disk_comes_back_only_where_there_is_room_for_it() {
    let world = World::with(|settings| settings.session_quota.disk_gb = 25).await;
    let session = world.session("agent").await;
    let one = |more: Value| {
        let mut arguments = json!({ "workspace_id": "one" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    world.create(&session, "one").await;
    world.ok(&session, "snapshot_create", one(json!({ "name": "small" }))).await;
    world.ok(&session, "workspace_grow", one(json!({ "disk_gb": 14 }))).await;
    world.ok(&session, "snapshot_create", one(json!({ "name": "large" }))).await;
    world.ok(&session, "snapshot_restore", one(json!({ "snapshot_name": "small" }))).await;
    world.ok(&session, "workspace_create", json!({ "name": "other", "disk_gb": 12 })).await;
    let large = one(json!({ "snapshot_name": "large" }));
    for action in ["snapshot_restore", "workspace_fork"] {
        world.refused(&session, action, large.clone(), Code::QuotaExceeded).await;
    }
    assert_eq!(usage(&world, &session).await["disk_gb"], 22);
    world.ok(&session, "workspace_destroy", json!({ "workspace_id": "other" })).await;
    world.ok(&session, "snapshot_restore", large).await;
    assert_eq!(usage(&world, &session).await["disk_gb"], 14);
}
