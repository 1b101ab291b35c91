//! What is remembered.

use agentiso_core::Code;
use agentiso_engine::{Caller, Shutdown};
use agentiso_testing::fake::{Answer, HostCall};
use serde_json::{Value, json};

use crate::world::{World, user};

/// The newest event of an action.
async fn newest(world: &World, action: &str) -> Value {
    let events = world.timeline().await;
    events.into_iter().find(|event| event["action"] == action).unwrap_or_else(|| panic!("no {action}"))
}

async fn seen_by(world: &World, caller: &Caller, arguments: Value) -> Vec<Value> {
    world.ok(caller, "timeline", arguments).await["events"].as_array().unwrap().clone()
}

#[tokio::test]
async fn what_succeeded_is_remembered_with_what_it_changed() {
    let world = World::new().await;
    let session = world.session("claude 1.0").await;
    let id = world.create(&session, "one").await;
    let event = newest(&world, "workspace_create").await;
    assert_eq!(
        (
            &event["workspace_id"],
            &event["workspace_name"],
            &event["client"],
            &event["outcome"],
            &event["changed"]
        ),
        (&json!(id.to_string()), &json!("one"), &json!("claude 1.0"), &json!("ok"), &json!("created one"))
    );
    world.ok(&session, "workspace_rename", json!({ "workspace_id": "one", "new_name": "two" })).await;
    let event = newest(&world, "workspace_rename").await;
    assert_eq!((&event["workspace_name"], &event["changed"]), (&json!("one"), &json!("is now called two")));
}

#[tokio::test]
async fn what_failed_is_remembered_with_its_code() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.host.faults().fail_once(HostCall::Create, Code::DiskFull);
    world.refused(&session, "workspace_create", json!({ "name": "one" }), Code::DiskFull).await;
    let event = newest(&world, "workspace_create").await;
    assert_eq!((&event["outcome"], &event["detail"]["name"]), (&json!("disk_full"), &json!("one")));
    assert_eq!(event["changed"], Value::Null);
    world
        .refused(&session, "workspace_start", json!({ "workspace_id": "none" }), Code::WorkspaceNotFound)
        .await;
    assert_eq!(newest(&world, "workspace_start").await["outcome"], "workspace_not_found");
}

#[tokio::test]
async fn what_a_refused_caller_reads_says_no_more_than_the_refusal() {
    let world = World::new().await;
    let (owner, other) = (world.session("owner").await, world.session("other").await);
    let id = world.create(&owner, "secret-plans").await;
    let by_id = json!({ "workspace_id": id.to_string(), "command": "true" });
    world.refused(&other, "exec", by_id, Code::NotOwner).await;
    let events = seen_by(&world, &other, json!({})).await;
    let event = events.iter().find(|event| event["action"] == "exec").unwrap();
    assert_eq!((&event["workspace_id"], &event["workspace_name"]), (&Value::Null, &Value::Null));
    assert_eq!(event["outcome"], "not_owner");
    assert!(!json!(events).to_string().contains("secret-plans"));
}

#[tokio::test]
async fn a_call_whose_caller_went_away_is_remembered_as_cancelled() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    {
        let call = world.call(&session, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
        tokio::select! {
            done = call => panic!("{done:?}"),
            () = world.until(async |world| !world.host.requested().is_empty()) => {}
        }
    }
    let event = newest(&world, "exec").await;
    assert_eq!((&event["outcome"], &event["workspace_name"]), (&json!("cancelled"), &json!("one")));
}

#[tokio::test]
async fn secrets_are_in_no_event() {
    const SECRET: &str = "hunter2-correct-horse";
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.host.answer("git", Answer::default());
    let one = |mut arguments: Value| {
        arguments["workspace_id"] = json!("one");
        arguments
    };
    world.ok(&session, "set_env", one(json!({ "vars": { "API_TOKEN": SECRET } }))).await;
    for (action, arguments) in [
        ("exec", json!({ "command": format!("echo {SECRET}") })),
        ("exec", json!({ "command": "true", "env": { "DB_PASSWORD": SECRET } })),
        ("exec", json!({ "command": "cat", "stdin": SECRET })),
        ("exec_start", json!({ "command": format!("curl -u me:{SECRET} https://example.org") })),
        ("file_write", json!({ "path": "/root/key", "content": SECRET })),
        ("file_edit", json!({ "path": "/root/key", "old_string": SECRET, "new_string": "x" })),
        ("git_clone", json!({ "url": format!("https://me:{SECRET}@example.org/x.git") })),
        ("set_env", json!({ "vars": { "API_TOKEN": Value::Null, "OTHER_TOKEN": SECRET } })),
    ] {
        // Whether it succeeds does not matter: it is remembered either way.
        let _ = world.call(&session, action, one(arguments)).await;
    }
    let spec = agentiso_core::wire::ExecSpec {
        argv: ["mysql", "--password", SECRET].map(|word| word.as_bytes().to_vec().into()).to_vec(),
        ..Default::default()
    };
    let _ = world.engine.interact(&session, "one", spec).await;
    let events = world.timeline().await;
    assert!(events.len() >= 10, "{events:?}");
    assert!(!json!(events).to_string().contains(SECRET), "{events:#?}");
}

#[tokio::test]
async fn a_page_is_full_of_what_its_reader_may_see() {
    let world = World::new().await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    for number in 0..5 {
        world.ok(&one, "workspace_list", json!({ "labels": { "n": number.to_string() } })).await;
        for _ in 0..10 {
            world.ok(&other, "workspace_list", json!({})).await;
        }
    }
    let page = seen_by(&world, &one, json!({ "limit": 3 })).await;
    assert_eq!(page.len(), 3, "the page is cut after what is not shown is left out");
    assert!(page.iter().all(|event| event["client"] == "one"));
}

#[tokio::test]
async fn successful_reads_can_be_left_out() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    world.sh(&session, "one", "echo hello").await;
    world.ok(&session, "workspace_info", json!({ "workspace_id": "one" })).await;
    world.refused(&session, "workspace_info", json!({ "workspace_id": "no" }), Code::WorkspaceNotFound).await;
    world.ok(&session, "workspace_list", json!({})).await;
    let actions = async |arguments| {
        let events = seen_by(&world, &user(), arguments).await;
        events.iter().map(|event| event["action"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let changes = actions(json!({ "changes_only": true })).await;
    assert_eq!(changes, ["workspace_info", "exec", "workspace_create"]);
    assert_eq!(actions(json!({})).await.len(), 6, "the first call of the timeline is listed too");
}

#[tokio::test]
async fn pages_follow_each_other_without_gaps() {
    let world = World::new().await;
    for number in 0..7 {
        world.ok(&user(), "workspace_list", json!({ "labels": { "n": number.to_string() } })).await;
    }
    let all: Vec<i64> = world.timeline().await.iter().map(|event| event["id"].as_i64().unwrap()).collect();
    let mut read = Vec::new();
    let mut before = all[0] + 1;
    loop {
        let page = seen_by(&world, &user(), json!({ "limit": 2, "before": before })).await;
        let page: Vec<i64> = page.iter().map(|event| event["id"].as_i64().unwrap()).collect();
        // Reading the timeline is remembered too; those events are newer than the first page.
        let page: Vec<i64> = page.into_iter().filter(|id| *id <= all[0]).collect();
        let Some(last) = page.last() else { break };
        before = *last;
        read.extend(page);
    }
    assert_eq!(read, all);
}

#[tokio::test]
async fn the_past_of_a_workspace_is_shown_to_its_owner_and_outlives_it_for_the_user() {
    let world = World::new().await;
    let (owner, other) = (world.session("owner").await, world.session("other").await);
    let id = world.create(&owner, "one").await;
    world.sh(&owner, "one", "echo hello").await;
    let events = seen_by(&world, &owner, json!({ "workspace_id": "one" })).await;
    let actions: Vec<&str> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["exec", "workspace_create"]);
    world.refused(&other, "timeline", json!({ "workspace_id": "one" }), Code::NotOwner).await;
    world.ok(&owner, "workspace_destroy", json!({ "workspace_id": "one" })).await;
    let past = json!({ "workspace_id": id.to_string() });
    let events = seen_by(&world, &user(), past.clone()).await;
    assert_eq!(events[0]["action"], "workspace_destroy");
    world.refused(&owner, "timeline", past, Code::WorkspaceNotFound).await;
}

#[tokio::test]
async fn a_strict_owner_does_not_read_what_other_sessions_did_before() {
    let world = World::strict().await;
    let (before, after) = (world.session("before").await, world.session("after").await);
    world.create(&before, "one").await;
    world.sh(&before, "one", "echo private").await;
    let grant = json!({ "workspace_id": "one", "session_id": after.session.unwrap().to_string() });
    world.ok(&user(), "workspace_grant", grant).await;
    let events = seen_by(&world, &after, json!({ "workspace_id": "one" })).await;
    assert!(!json!(events).to_string().contains("private"), "{events:?}");
    assert!(events.iter().any(|event| event["action"] == "workspace_grant"), "what the user did is shown");
}

#[tokio::test]
async fn a_session_cannot_call_itself_the_user_or_agentiso() {
    let world = World::new().await;
    for client in ["agentiso", "AgentISO/1.0", "the user", "operator"] {
        let session = world.session(client).await;
        world.ok(&session, "workspace_list", json!({})).await;
        let event = newest(&world, "workspace_list").await;
        assert_eq!(event["client"], format!("session {client:?}"));
    }
}

#[tokio::test]
async fn everything_is_stored_when_the_engine_ends() {
    let mut world = World::new().await;
    world.create(&user(), "one").await;
    world.engine.shut_down(Shutdown::LeaveMachines).await;
    world.reopen().await;
    assert_eq!(newest(&world, "workspace_create").await["workspace_name"], "one");
}

#[tokio::test]
async fn streams_are_remembered_with_how_they_ended() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let spec = |tty| agentiso_core::wire::ExecSpec {
        argv: ["sh", "-c", "exit 3"].map(|word| word.as_bytes().to_vec().into()).to_vec(),
        tty,
        ..Default::default()
    };
    for (tty, action) in [(None, "exec_stream"), (Some((80, 24)), "shell")] {
        let spec = agentiso_core::wire::ExecSpec {
            argv: ["/bin/sh", "-c", "exit 3"].map(|word| word.as_bytes().to_vec().into()).to_vec(),
            ..spec(tty)
        };
        let mut running =
            world.engine.interact(&user(), "one", spec).await.map_err(|error| error.failure).unwrap();
        let exit = loop {
            match running.next().await.unwrap() {
                Some(agentiso_core::ports::link::ProcessEvent::Exited(exit)) => break exit,
                Some(_) => {}
                None => panic!("no end"),
            }
        };
        running.ended(&exit).await.unwrap();
        let event = newest(&world, action).await;
        assert_eq!((&event["outcome"], &event["changed"]), (&json!("ok"), &json!("exit code 3")));
    }
}

#[tokio::test]
async fn a_change_is_stored_before_it_is_made_and_what_a_killed_daemon_left_is_told() {
    let mut world = World::new().await;
    let hang = world.host.faults().hang(HostCall::Create);
    let (engine, caller) = (std::sync::Arc::clone(&world.engine), user());
    let call = tokio::spawn(async move {
        crate::actions::call(&engine, &caller, "workspace_create", json!({ "name": "one" })).await
    });
    hang.reached().await;
    assert_eq!(newest(&world, "workspace_create").await["outcome"], "running");
    call.abort();
    world.reopen().await;
    assert_eq!(newest(&world, "workspace_create").await["outcome"], "interrupted");
}
