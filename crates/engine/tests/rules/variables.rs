//! Variables of workspaces: their values are in memory and nowhere else.

use agentiso_core::Code;
use agentiso_core::ports::records::VariableRecords;
use agentiso_testing::fake::LinkCall;
use serde_json::{Value, json};

use crate::world::{World, user};

fn set(name: &str, vars: Value) -> Value {
    json!({ "workspace_id": name, "vars": vars })
}

async fn names(world: &World, workspace: &str) -> Value {
    world.ok(&user(), "set_env", set(workspace, json!({}))).await["names"].clone()
}

#[tokio::test]
async fn variables_are_set_replaced_and_removed() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let answer = world.ok(&user(), "set_env", set("one", json!({ "A": "1", "B": "2" }))).await;
    assert_eq!((&answer["count"], &answer["names"]), (&json!(2), &json!(["A", "B"])));
    world.ok(&user(), "set_env", set("one", json!({ "A": "3", "B": null, "NONE": null }))).await;
    assert_eq!(world.sh(&user(), "one", "printenv A; printenv B || echo none").await, "3\nnone\n");
    let info = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await;
    assert_eq!(info["env_names"], json!(["A"]));
}

#[tokio::test]
async fn only_names_are_stored() {
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    world.ok(&user(), "set_env", set("one", json!({ "TOKEN": "hunter2-hunter2" }))).await;
    let stored = world.records.meta().variables(id).await.unwrap();
    assert_eq!((stored[0].name.as_str(), stored[0].by_operator), ("TOKEN", true));
    for file in std::fs::read_dir(world.records.dir()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(15).any(|window| window == b"hunter2-hunter2");
            assert!(!found, "the value is in {}", path.display());
        }
    }
}

#[tokio::test]
async fn names_that_choose_code_are_refused_and_change_nothing() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    for bad in ["PATH", "LD_PRELOAD", "IFS", "BASH_ENV", "", "1A", "A B", "A=B"] {
        world
            .refused(&user(), "set_env", set("one", json!({ "GOOD": "x", bad: "y" })), Code::InvalidArgument)
            .await;
    }
    assert_eq!(names(&world, "one").await, json!([]));
}

#[tokio::test]
async fn a_workspace_has_only_so_many_variables() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let many: Value =
        (0..256).map(|number| (format!("V{number}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    world.ok(&user(), "set_env", set("one", many)).await;
    world.refused(&user(), "set_env", set("one", json!({ "ONE_MORE": "x" })), Code::InvalidArgument).await;
    assert_eq!(names(&world, "one").await.as_array().unwrap().len(), 256);
}

#[tokio::test]
async fn variables_set_while_it_is_stopped_are_there_when_it_starts() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one" })).await;
    world.ok(&user(), "set_env", set("one", json!({ "A": "1" }))).await;
    let info = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await;
    assert_eq!(info["state"], "stopped", "setting a variable starts nothing");
    assert_eq!(world.sh(&user(), "one", "printenv A").await, "1\n");
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one" })).await;
    assert_eq!(world.sh(&user(), "one", "printenv A").await, "1\n", "they outlive the machine");
}

#[tokio::test]
async fn forks_have_the_variables_of_their_source_and_are_independent() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "set_env", set("one", json!({ "A": "1" }))).await;
    world.ok(&user(), "snapshot_create", json!({ "workspace_id": "one", "name": "s" })).await;
    for (name, arguments) in [
        ("live", json!({ "workspace_id": "one", "new_name": "live" })),
        (
            "cold",
            json!({ "workspace_id": "one", "new_name": "cold", "snapshot_name": "s", "disk_only": true }),
        ),
    ] {
        world.ok(&user(), "workspace_fork", arguments).await;
        assert_eq!(world.sh(&user(), name, "printenv A").await, "1\n", "{name}");
        world.ok(&user(), "set_env", set(name, json!({ "A": name }))).await;
    }
    assert_eq!(world.sh(&user(), "one", "printenv A").await, "1\n");
}

#[tokio::test]
async fn a_restored_machine_gets_the_present_variables_and_not_those_of_the_past() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "set_env", set("one", json!({ "A": "old", "GONE": "old" }))).await;
    let snapshot = json!({ "workspace_id": "one", "name": "s", "include_memory": true });
    world.ok(&user(), "snapshot_create", snapshot).await;
    world.ok(&user(), "set_env", set("one", json!({ "A": "new", "GONE": null, "ADDED": "new" }))).await;
    world.ok(&user(), "snapshot_restore", json!({ "workspace_id": "one", "snapshot_name": "s" })).await;
    let printed = world.sh(&user(), "one", "printenv A; printenv GONE || echo none; printenv ADDED").await;
    assert_eq!(printed, "new\nnone\nnew\n");
}

#[tokio::test]
async fn a_suspended_workspace_comes_back_with_its_variables() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "set_env", set("one", json!({ "A": "1" }))).await;
    world.ok(&user(), "workspace_suspend", json!({ "workspace_id": "one" })).await;
    world.ok(&user(), "workspace_resume", json!({ "workspace_id": "one" })).await;
    assert_eq!(world.sh(&user(), "one", "printenv A").await, "1\n");
}

#[tokio::test]
async fn a_running_machine_keeps_its_variables_over_a_restart_of_the_daemon() {
    let mut world = World::new().await;
    world.create(&user(), "running").await;
    world.create(&user(), "stopped").await;
    for name in ["running", "stopped"] {
        world.ok(&user(), "set_env", set(name, json!({ "A": "1" }))).await;
    }
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "stopped" })).await;
    world.reopen().await;
    assert_eq!(world.sh(&user(), "running", "printenv A").await, "1\n");
    assert_eq!(names(&world, "stopped").await, json!([]), "nobody knows the values any more");
}

#[tokio::test]
async fn a_variable_the_machine_did_not_take_is_not_said_to_be_set() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let broken = agentiso_core::ports::link::GuestError {
        kind: agentiso_core::ports::link::ErrorKind::Io,
        errno: None,
        message: "made to fail".to_owned(),
    };
    world
        .host
        .link_faults()
        .fail_once(LinkCall::SetEnv, agentiso_core::ports::link::LinkError::Guest(broken));
    assert!(world.call(&user(), "set_env", set("one", json!({ "A": "1" }))).await.is_err());
    assert_eq!(world.sh(&user(), "one", "printenv A || echo none").await, "none\n");
    world.ok(&user(), "set_env", set("one", json!({ "A": "2" }))).await;
    assert_eq!(world.sh(&user(), "one", "printenv A").await, "2\n");
}

#[tokio::test]
async fn variables_are_in_forks_of_forks_and_outlive_the_daemon_there_too() {
    let mut world = World::new().await;
    world.create(&user(), "one").await;
    world.ok(&user(), "set_env", set("one", json!({ "KEPT": "kept", "CHANGED": "before" }))).await;
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "one", "new_name": "fork" })).await;
    world.ok(&user(), "set_env", set("fork", json!({ "CHANGED": "in-fork", "NEW": "new" }))).await;
    world.reopen().await;
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "fork", "new_name": "next" })).await;
    let words = "printenv KEPT; printenv CHANGED; printenv NEW || echo none";
    assert_eq!(world.sh(&user(), "one", words).await, "kept\nbefore\nnone\n");
    for name in ["fork", "next"] {
        assert_eq!(world.sh(&user(), name, words).await, "kept\nin-fork\nnew\n", "{name}");
    }
}

/// What happens to a workspace between two owners.
const BETWEEN: [&str; 6] = ["nothing", "stop", "suspend", "restart", "restore", "fork"];

#[tokio::test]
async fn variables_of_one_session_never_reach_the_next_whatever_state_the_workspace_was_in() {
    for between in BETWEEN {
        let mut world = World::new().await;
        let (one, two) = (world.session("one").await, world.session("two").await);
        world.create(&one, "web").await;
        world.ok(&user(), "set_env", set("web", json!({ "OF_USER": "kept" }))).await;
        world.ok(&one, "set_env", set("web", json!({ "SECRET": "ones" }))).await;
        let web = |more: Value| {
            let mut arguments = json!({ "workspace_id": "web" });
            arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            arguments
        };
        let snapshot = web(json!({ "name": "before", "include_memory": true }));
        world.ok(&one, "snapshot_create", snapshot).await;
        match between {
            "stop" => drop(world.ok(&one, "workspace_stop", web(json!({}))).await),
            "suspend" => drop(world.ok(&one, "workspace_suspend", web(json!({}))).await),
            "restart" => world.reopen().await,
            _ => {}
        }
        world.engine.end_session(one.session.unwrap()).await.unwrap();
        let seen_in = match between {
            "restore" => {
                world.ok(&two, "snapshot_restore", web(json!({ "snapshot_name": "before" }))).await;
                "web"
            }
            "fork" => {
                let fork = web(json!({ "snapshot_name": "before", "new_name": "fork" }));
                world.ok(&two, "workspace_fork", fork).await;
                "fork"
            }
            _ => "web",
        };
        let seen =
            world.sh(&two, seen_in, "printenv SECRET || echo none; printenv OF_USER || echo none").await;
        assert_eq!(seen, "none\nkept\n", "{between}");
    }
}
