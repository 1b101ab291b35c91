//! Idempotency keys.

use std::time::Duration;

use agentiso_core::Code;
use agentiso_engine::Shutdown;
use agentiso_testing::FailAt;
use agentiso_testing::fake::HostCall;
use serde_json::json;

use crate::world::{World, user};

#[tokio::test]
async fn the_same_call_with_the_same_key_has_one_effect_and_one_answer() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let create = json!({ "name": "one", "idempotency_key": "k" });
    let first = world.ok(&session, "workspace_create", create.clone()).await;
    let second = world.ok(&session, "workspace_create", create).await;
    assert_eq!(first, second);
    assert_eq!(world.names().await, ["one"]);
    assert_eq!(world.host.faults().count(HostCall::Create), 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.ok(&session, "workspace_create", json!({ "name": "one", "idempotency_key": "k" })).await;
    for other in [
        json!({ "name": "two", "idempotency_key": "k" }),
        json!({ "idempotency_key": "k" }),
        json!({ "name": "one", "vcpus": 2, "idempotency_key": "k" }),
    ] {
        world.refused(&session, "workspace_create", other, Code::IdempotencyConflict).await;
    }
    let fork = json!({ "workspace_id": "one", "idempotency_key": "k" });
    world.refused(&session, "workspace_fork", fork, Code::IdempotencyConflict).await;
    assert_eq!(world.names().await, ["one"]);
}

#[tokio::test]
async fn a_request_that_is_at_work_is_not_begun_again() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let create = json!({ "name": "one", "idempotency_key": "k" });
    let hang = world.host.faults().hang(HostCall::Create);
    let first = world.call(&session, "workspace_create", create.clone());
    let second = async {
        hang.reached().await;
        world.refused(&session, "workspace_create", create.clone(), Code::IdempotencyConflict).await;
        hang.release();
    };
    let (first, ()) = tokio::join!(first, second);
    let again = world.ok(&session, "workspace_create", create).await;
    assert_eq!(first.unwrap(), again);
    assert_eq!(world.names().await, ["one"]);
}

#[tokio::test]
async fn a_request_that_failed_frees_its_key() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let create = json!({ "name": "one", "idempotency_key": "k" });
    world.host.faults().fail_once(HostCall::Create, Code::DiskFull);
    world.refused(&session, "workspace_create", create.clone(), Code::DiskFull).await;
    world.ok(&session, "workspace_create", create).await;
    let other = json!({ "name": "one", "idempotency_key": "other" });
    world.refused(&session, "workspace_create", other.clone(), Code::WorkspaceExists).await;
    world.ok(&session, "workspace_destroy", json!({ "workspace_id": "one" })).await;
    world.ok(&session, "workspace_create", other).await;
}

#[tokio::test]
async fn an_answer_about_a_workspace_that_is_gone_is_not_repeated() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let create = json!({ "name": "one", "idempotency_key": "k" });
    world.ok(&session, "workspace_create", create.clone()).await;
    world.ok(&session, "workspace_destroy", json!({ "workspace_id": "one" })).await;
    let failure = world.refused(&session, "workspace_create", create, Code::WorkspaceNotFound).await;
    assert!(failure.remedy().unwrap().contains("new key"), "{failure:?}");
    assert!(world.names().await.is_empty());
}

#[tokio::test]
async fn keys_of_sessions_are_apart_and_the_user_has_none() {
    let world = World::new().await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    let create = json!({ "idempotency_key": "k" });
    let mut made = vec![world.ok(&one, "workspace_create", create.clone()).await["workspace_id"].clone()];
    made.push(world.ok(&other, "workspace_create", create.clone()).await["workspace_id"].clone());
    for _ in 0..2 {
        made.push(world.ok(&user(), "workspace_create", create.clone()).await["workspace_id"].clone());
    }
    for (index, id) in made.iter().enumerate() {
        assert!(!made[..index].contains(id), "{made:?}");
    }
}

#[tokio::test]
async fn an_empty_key_is_refused_and_makes_nothing() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world
        .refused(&session, "workspace_create", json!({ "idempotency_key": "" }), Code::InvalidArgument)
        .await;
    let long = json!({ "idempotency_key": "k".repeat(256) });
    world.refused(&session, "workspace_create", long, Code::InvalidArgument).await;
    world.ok(&session, "workspace_create", json!({ "idempotency_key": "k".repeat(255) })).await;
    assert_eq!(world.names().await.len(), 1);
}

#[tokio::test]
async fn forks_have_keys_too() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let fork = json!({ "workspace_id": "one", "count": 2, "idempotency_key": "k" });
    let first = world.ok(&session, "workspace_fork", fork.clone()).await;
    assert_eq!(world.ok(&session, "workspace_fork", fork.clone()).await, first);
    assert_eq!(world.names().await, ["one", "worker-1", "worker-2"]);
}

#[tokio::test]
async fn an_answer_outlives_the_daemon_and_an_unfinished_request_does_not() {
    let mut world = World::new().await;
    let session = world.session("agent").await;
    let done = json!({ "name": "done", "idempotency_key": "done" });
    let first = world.ok(&session, "workspace_create", done.clone()).await;
    let unfinished = json!({ "name": "unfinished", "idempotency_key": "unfinished" });
    let hang = world.host.faults().hang(HostCall::Create);
    let engine = std::sync::Arc::clone(&world.engine);
    let (caller, arguments) = (session.clone(), unfinished.clone());
    let call =
        tokio::spawn(
            async move { crate::actions::call(&engine, &caller, "workspace_create", arguments).await },
        );
    hang.reached().await;
    world.reopen().await;
    assert_eq!(world.ok(&session, "workspace_create", done).await, first);
    world.host.faults().clear(HostCall::Create);
    world.ok(&session, "workspace_create", unfinished).await;
    call.abort();
}

#[tokio::test]
async fn a_key_is_free_again_after_a_day() {
    let mut world = World::new().await;
    let session = world.session("agent").await;
    let create = json!({ "idempotency_key": "k" });
    let first = world.ok(&session, "workspace_create", create.clone()).await;
    world.clock.advance(Duration::from_secs(23 * 3600));
    world.reopen().await;
    // The books are cleaned before the first look is over, and this session that owns nothing goes with that.
    let gone = world.session("gone").await;
    world.clock.advance(Duration::from_secs(2 * 3600));
    assert_eq!(world.ok(&session, "workspace_create", create.clone()).await, first);
    world.clock.advance(Duration::from_secs(8 * 24 * 3600));
    world.reopen().await;
    world.until(async |world| !world.engine.has_session(gone.session.unwrap()).await).await;
    world
        .until(async |world| {
            let again = world.ok(&session, "workspace_create", create.clone()).await;
            again["workspace_id"] != first["workspace_id"]
        })
        .await;
}

#[tokio::test]
async fn keys_go_with_their_session() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.ok(&session, "workspace_create", json!({ "name": "one", "idempotency_key": "k" })).await;
    world.engine.end_session(session.session.unwrap()).await.unwrap();
    let create = json!({ "name": "two", "idempotency_key": "k" });
    // A session that has ended can do nothing, with a key or without.
    assert!(world.call(&session, "workspace_create", create).await.is_err());
    assert_eq!(world.names().await, ["one"]);
}

/// Sends a request whose nth transaction fails, for every nth, and repeats it: the key is never stuck.
async fn repeat_after_each_failure(and_later: bool, refused: Option<Code>) {
    for nth in 1.. {
        let world = World::new().await;
        let session = world.session("agent").await;
        if refused.is_some() {
            world.create(&session, "one").await;
        }
        let create = json!({ "name": "one", "idempotency_key": "k" });
        let fail = FailAt::new(nth, and_later);
        world.records.fail(fail.clone());
        let first = world.call(&session, "workspace_create", create.clone()).await;
        world.records.succeed();
        let reached = fail.disarm();
        let again = world.call(&session, "workspace_create", create.clone()).await;
        let shown = format!("transaction {nth}: {first:?}, then {again:?}");
        match refused {
            None => match (first, again) {
                (Ok(first), Ok(again)) => assert_eq!(first, again, "{shown}"),
                (Err(_), Ok(_)) => {}
                // With all later transactions failing, a new workspace could not even be removed.
                (Err(_), Err(failure)) if and_later => {
                    assert_eq!(failure.code(), Code::WorkspaceExists, "{shown}");
                }
                (_, Err(_)) => panic!("{shown}"),
            },
            Some(code) => assert_eq!(again.map_err(|failure| failure.code()), Err(code), "{shown}"),
        }
        assert_eq!(world.names().await, ["one"], "{shown}");
        if !reached {
            return;
        }
    }
}

#[tokio::test]
async fn a_request_can_be_repeated_whichever_of_its_transactions_failed() {
    for and_later in [false, true] {
        repeat_after_each_failure(and_later, None).await;
        repeat_after_each_failure(and_later, Some(Code::WorkspaceExists)).await;
    }
}

#[tokio::test]
async fn an_outcome_that_could_not_be_stored_is_answered_and_stored_later() {
    let create = json!({ "name": "one", "idempotency_key": "k" });
    let mut stored_late = 0;
    for nth in 1.. {
        let mut world = World::new().await;
        let session = world.session("agent").await;
        let fail = FailAt::new(nth, false);
        world.records.fail(fail.clone());
        let first = world.call(&session, "workspace_create", create.clone()).await;
        world.records.succeed();
        if !fail.disarm() {
            break;
        }
        let Ok(first) = first else { continue };
        world.engine.shut_down(Shutdown::LeaveMachines).await;
        world.reopen().await;
        assert_eq!(world.ok(&session, "workspace_create", create.clone()).await, first, "transaction {nth}");
        stored_late += 1;
    }
    assert!(stored_late > 0, "no answered request had a failed transaction");
}
