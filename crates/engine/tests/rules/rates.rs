//! How many calls a minute a session may make.

use agentiso_core::Code;
use agentiso_core::action::Rate;
use serde_json::{Value, json};

use crate::actions::ALL;
use crate::world::{World, user};

/// Limits so low that the second call of a kind is refused.
async fn limited(create: u32, exec: u32, default: u32) -> World {
    World::with(|settings| {
        settings.rates.enabled = true;
        settings.rates.create_per_minute = create;
        settings.rates.exec_per_minute = exec;
        settings.rates.default_per_minute = default;
    })
    .await
}

#[tokio::test]
async fn each_kind_of_call_is_counted_apart() {
    let world = limited(2, 3, 4).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.create(&session, "two").await;
    for _ in 0..3 {
        world.sh(&session, "one", "true").await;
    }
    for _ in 0..4 {
        world.ok(&session, "workspace_list", json!({})).await;
    }
    for (action, arguments) in [
        ("workspace_create", json!({})),
        ("exec", json!({ "workspace_id": "one", "command": "true" })),
        ("workspace_list", json!({})),
    ] {
        let failure = world.refused(&session, action, arguments, Code::RateLimited).await;
        assert!(failure.wait().is_some_and(|wait| !wait.is_zero()), "{failure:?}");
    }
    assert_eq!(world.names().await.len(), 2);
}

#[tokio::test]
async fn every_action_counts_against_the_limit_it_declares() {
    for entry in ALL {
        let world = limited(1, 1, 1).await;
        let session = world.session("agent").await;
        // What is wrong with the arguments does not matter: the call is counted before anything is looked up.
        let schema = (entry.schema)();
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let value = |name: &str| match schema["properties"][name]["type"].as_str() {
            Some("integer") => json!(1),
            Some("object") => json!({}),
            Some("array") => json!([]),
            _ if schema["properties"][name]["enum"].is_array() => {
                schema["properties"][name]["enum"][0].clone()
            }
            _ => json!("nothing"),
        };
        let arguments: Value =
            required.map(|name| (name.to_owned(), value(name))).collect::<serde_json::Map<_, _>>().into();
        let name = entry.about.name;
        let first = world.call(&session, name, arguments.clone()).await;
        let limited = |called: &Result<Value, agentiso_core::Failure>| {
            called.as_ref().is_err_and(|failure| failure.code() == Code::RateLimited)
        };
        assert!(!limited(&first), "{name}: {first:?}");
        let second = world.call(&session, name, arguments).await;
        assert!(limited(&second), "{name}: {second:?}");
        // Calls of the other kinds are not affected.
        for (rate, other) in [
            (Rate::Create, "workspace_create"),
            (Rate::Exec, "exec_start"),
            (Rate::Default, "workspace_list"),
        ] {
            let arguments =
                if rate == Rate::Exec { json!({ "workspace_id": "x", "command": "x" }) } else { json!({}) };
            let called = world.call(&session, other, arguments).await;
            assert_eq!(limited(&called), rate == entry.about.rate, "{name} and {other}: {called:?}");
        }
    }
}

#[tokio::test]
async fn a_session_does_not_use_up_the_calls_of_another_and_the_user_is_not_counted() {
    let world = limited(1, 1, 1).await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    world.create(&one, "one").await;
    world.refused(&one, "workspace_create", json!({}), Code::RateLimited).await;
    world.create(&other, "other").await;
    for _ in 0..20 {
        world.ok(&user(), "workspace_list", json!({})).await;
    }
}

#[tokio::test]
async fn all_sessions_together_have_ten_times_as_many_calls() {
    let world = limited(1, 1, 1).await;
    let mut admitted = 0;
    for number in 0..15 {
        let session = world.session(&format!("agent {number}")).await;
        admitted += u32::from(world.call(&session, "workspace_list", json!({})).await.is_ok());
    }
    assert_eq!(admitted, 10);
}

#[tokio::test]
async fn a_refused_call_touches_nothing() {
    let world = limited(10, 1, 10).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.sh(&session, "one", "true").await;
    let orphan = world.create(&user(), "orphan").await;
    let exec = json!({ "workspace_id": "orphan", "command": "echo x > /root/x" });
    world.refused(&session, "exec", exec, Code::RateLimited).await;
    assert_eq!(world.owner(orphan).await, None, "it was not adopted");
    let stat = json!({ "workspace_id": "orphan", "path": "/root/x" });
    assert_eq!(world.ok(&user(), "file_stat", stat).await["exists"], false);
}

#[tokio::test]
async fn streams_are_counted_like_commands() {
    let world = limited(10, 1, 10).await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let spec = || agentiso_core::wire::ExecSpec { argv: vec![b"true".to_vec().into()], ..Default::default() };
    world.engine.interact(&session, "one", spec()).await.map_err(|not_started| not_started.failure).unwrap();
    let refused = world.engine.interact(&session, "one", spec()).await;
    assert_eq!(refused.err().unwrap().failure.code(), Code::RateLimited);
}
