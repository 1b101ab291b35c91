//! How a workspace gets another owner: adopted, granted, and what the one before has left.

use std::time::Duration;

use agentiso_core::Code;
use agentiso_engine::Caller;
use agentiso_testing::fake::LinkCall;
use serde_json::{Value, json};

use crate::world::{World, user};

fn id(caller: &Caller) -> String {
    caller.session.unwrap().to_string()
}

fn adopt(workspace: &str, force: bool) -> Value {
    json!({ "workspace_id": workspace, "force": force })
}

/// A workspace of one session, and another session that wants it.
async fn contested() -> (World, Caller, Caller) {
    let world = World::new().await;
    let (owner, other) = (world.session("owner").await, world.session("other").await);
    world.create(&owner, "one").await;
    (world, owner, other)
}

#[tokio::test]
async fn any_session_can_adopt_a_workspace_without_an_owner() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let orphan = world.create(&user(), "orphan").await;
    let adopted = world.ok(&session, "workspace_adopt", adopt("orphan", false)).await;
    assert_eq!((&adopted["adopted_count"], &adopted["adopted"][0]["owned"]), (&json!(1), &json!(true)));
    assert_eq!(world.owner(orphan).await, session.session);
    let again = world.ok(&session, "workspace_adopt", adopt("orphan", false)).await;
    assert_eq!(again["adopted_count"], 1, "adopting one's own changes nothing");
}

#[tokio::test]
async fn what_is_anothers_is_not_adopted_without_force_however_long_it_is_idle() {
    let (world, owner, other) = contested().await;
    world.clock.advance(Duration::from_secs(1_000_000));
    world.refused(&other, "workspace_adopt", adopt("one", false), Code::NotOwner).await;
    let all = world.ok(&other, "workspace_adopt", json!({})).await;
    assert_eq!((&all["adopted_count"], &all["error_count"]), (&json!(0), &json!(0)));
    world.sh(&owner, "one", "true").await;
}

#[tokio::test]
async fn force_waits_until_the_owner_has_been_idle_for_long_enough() {
    let (world, owner, other) = contested().await;
    world.clock.advance(Duration::from_secs(59));
    let failure = world.refused(&other, "workspace_adopt", adopt("one", true), Code::NotOwner).await;
    assert!(failure.message().contains("59 s ago"), "{failure}");
    assert!(failure.remedy().unwrap().contains("60 s"), "{failure:?}");
    // Any call of the owner counts, not only one on this workspace.
    world.ok(&owner, "workspace_list", json!({})).await;
    world.clock.advance(Duration::from_secs(59));
    world.refused(&other, "workspace_adopt", adopt("one", true), Code::NotOwner).await;
    world.clock.advance(Duration::from_secs(1));
    world.ok(&other, "workspace_adopt", adopt("one", true)).await;
    world.refused(&owner, "exec", json!({ "workspace_id": "one", "command": "true" }), Code::NotOwner).await;
}

#[tokio::test]
async fn the_wall_clock_makes_nobody_idle() {
    let (world, _, other) = contested().await;
    world.clock.set_wall(jiff::SignedDuration::from_hours(24));
    world.refused(&other, "workspace_adopt", adopt("one", true), Code::NotOwner).await;
}

#[tokio::test]
async fn force_takes_nothing_from_a_session_whose_client_is_connected() {
    let (world, owner, other) = contested().await;
    let present = world.engine.attend(owner.session.unwrap());
    world.clock.advance(Duration::from_secs(1_000));
    let failure = world.refused(&other, "workspace_adopt", adopt("one", true), Code::NotOwner).await;
    assert!(failure.message().contains("connected"), "{failure}");
    let all = world.ok(&other, "workspace_adopt", json!({ "force": true })).await;
    assert_eq!((&all["adopted_count"], &all["error_count"]), (&json!(0), &json!(1)));
    present.keep();
    world.ok(&other, "workspace_adopt", adopt("one", true)).await;
}

#[tokio::test]
async fn force_takes_nothing_from_a_session_that_has_a_call_running() {
    let (world, owner, other) = contested().await;
    let hang = world.host.link_faults().hang(LinkCall::Exec);
    let call = world.call(&owner, "exec", json!({ "workspace_id": "one", "command": "true" }));
    let take = async {
        hang.reached().await;
        world.clock.advance(Duration::from_secs(1_000));
        let failure = world.refused(&other, "workspace_adopt", adopt("one", true), Code::NotOwner).await;
        assert!(failure.message().contains("call running"), "{failure}");
        hang.release();
    };
    let (called, ()) = tokio::join!(call, take);
    called.unwrap();
}

#[tokio::test]
async fn all_that_nobody_owns_is_adopted_at_once_and_with_force_what_is_idle_too() {
    let world = World::new().await;
    let (idle, session) = (world.session("idle").await, world.session("agent").await);
    world.create(&user(), "orphan-1").await;
    world.create(&user(), "orphan-2").await;
    world.create(&idle, "idle").await;
    let adopted = world.ok(&session, "workspace_adopt", json!({})).await;
    assert_eq!(adopted["adopted_count"], 2);
    world.clock.advance(Duration::from_secs(61));
    let adopted = world.ok(&session, "workspace_adopt", json!({ "force": true })).await;
    assert_eq!(adopted["adopted"][0]["name"], "idle");
}

#[tokio::test]
async fn the_user_owns_nothing_and_adopts_nothing() {
    let (world, ..) = contested().await;
    for arguments in [json!({}), adopt("one", true)] {
        world.refused(&user(), "workspace_adopt", arguments, Code::InvalidArgument).await;
    }
}

#[tokio::test]
async fn a_workspace_is_granted_by_its_owner_or_by_the_user_and_by_nobody_else() {
    let (world, owner, other) = contested().await;
    let third = world.session("third").await;
    let grant = |to: &Caller| json!({ "workspace_id": "one", "session_id": id(to) });
    world.refused(&other, "workspace_grant", grant(&other), Code::NotOwner).await;
    let granted = world.ok(&owner, "workspace_grant", grant(&other)).await;
    assert_eq!((&granted["client"], &granted["session_id"]), (&json!("other"), &json!(id(&other))));
    world.refused(&owner, "workspace_grant", grant(&owner), Code::NotOwner).await;
    world.ok(&user(), "workspace_grant", grant(&third)).await;
    world.sh(&third, "one", "true").await;
    world.ok(&third, "workspace_grant", grant(&third)).await;
}

#[tokio::test]
async fn the_user_may_shorten_the_id_of_a_session_and_a_session_may_not() {
    let (world, owner, other) = contested().await;
    let grant = |to: &str| json!({ "workspace_id": "one", "session_id": to });
    for wrong in ["", "0000", "no-such-session", &id(&other)[..3]] {
        world.refused(&user(), "workspace_grant", grant(wrong), Code::SessionNotFound).await;
    }
    world.refused(&owner, "workspace_grant", grant(&id(&other)[..8]), Code::SessionNotFound).await;
    world.ok(&user(), "workspace_grant", grant(&id(&other)[..8])).await;
}

#[tokio::test]
async fn variables_of_sessions_do_not_reach_the_next_owner_and_those_of_the_user_do() {
    let (world, owner, other) = contested().await;
    let set = |name: &str, value: &str| json!({ "workspace_id": "one", "vars": { name: value } });
    world.ok(&owner, "set_env", set("TOKEN", "owners")).await;
    world.ok(&user(), "set_env", set("SHARED", "users")).await;
    assert_eq!(world.sh(&owner, "one", "printenv TOKEN; printenv SHARED").await, "owners\nusers\n");
    let grant = json!({ "workspace_id": "one", "session_id": id(&other) });
    world.ok(&owner, "workspace_grant", grant).await;
    assert_eq!(
        world.sh(&other, "one", "printenv TOKEN || echo none; printenv SHARED").await,
        "none\nusers\n"
    );
    let names =
        world.ok(&other, "set_env", json!({ "workspace_id": "one", "vars": {} })).await["names"].clone();
    assert_eq!(names, json!(["SHARED"]));
}

#[tokio::test]
async fn every_way_to_another_owner_clears_variables_before_the_first_command() {
    for way in ["adopt", "use", "grant", "end"] {
        let (world, owner, other) = contested().await;
        let one = world.names().await[0].clone();
        world.ok(&owner, "set_env", json!({ "workspace_id": one, "vars": { "TOKEN": "owners" } })).await;
        world.clock.advance(Duration::from_secs(100));
        match way {
            "adopt" => drop(world.ok(&other, "workspace_adopt", adopt("one", true)).await),
            "grant" => {
                let grant = json!({ "workspace_id": "one", "session_id": id(&other) });
                drop(world.ok(&user(), "workspace_grant", grant).await);
            }
            _ => world.engine.end_session(owner.session.unwrap()).await.unwrap(),
        }
        let printed = world.sh(&other, "one", "printenv TOKEN || echo none").await;
        assert_eq!(printed, "none\n", "{way}");
        let workspace = world.names().await.len();
        assert_eq!(workspace, 1);
    }
}

#[tokio::test]
async fn a_running_call_of_the_owner_before_is_cut_off() {
    let (world, owner, other) = contested().await;
    let call = world.call(&owner, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
    let grant = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        let grant = json!({ "workspace_id": "one", "session_id": id(&other) });
        world.ok(&user(), "workspace_grant", grant).await;
    };
    let (called, _) = tokio::join!(call, grant);
    assert_eq!(called.unwrap_err().code(), Code::NotOwner);
    world
        .until(async |world| {
            let jobs = world.ok(&other, "exec_list", json!({ "workspace_id": "one" })).await;
            jobs["jobs"].as_array().unwrap().is_empty()
        })
        .await;
}

#[tokio::test]
async fn jobs_and_forwards_stay_for_the_next_owner_who_can_end_them() {
    let (world, owner, other) = contested().await;
    let one = json!({ "workspace_id": "one" });
    let start = json!({ "workspace_id": "one", "command": "sleep 1000" });
    let job = world.ok(&owner, "exec_start", start).await["job_id"].clone();
    let forward = json!({ "workspace_id": "one", "guest_port": 7000 });
    world.ok(&owner, "port_forward_add", forward.clone()).await;
    let grant = json!({ "workspace_id": "one", "session_id": id(&other) });
    world.ok(&owner, "workspace_grant", grant).await;
    for action in ["exec_list", "port_forward_list"] {
        world.refused(&owner, action, one.clone(), Code::NotOwner).await;
    }
    let jobs = world.ok(&other, "exec_list", one.clone()).await;
    assert_eq!((&jobs["jobs"][0]["job_id"], &jobs["jobs"][0]["running"]), (&job, &json!(true)), "{jobs}");
    assert_eq!(world.ok(&other, "port_forward_list", one.clone()).await["forwards"][0]["guest_port"], 7000);
    world.ok(&other, "exec_kill", json!({ "workspace_id": "one", "job_id": job })).await;
    assert_eq!(world.ok(&other, "port_forward_remove", forward).await["removed"], true);
    assert_eq!(world.ok(&other, "port_forward_list", one).await["forwards"], json!([]));
}
