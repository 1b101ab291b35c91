//! What the engine does by itself, by a clock that only moves when it is told to.

use std::time::Duration;

use agentiso_core::wire::EventKind;
use agentiso_core::{Code, WorkspaceId};
use agentiso_engine::{Caller, Delivered, Event, Subscription};
use agentiso_testing::fake::{HostCall, LinkCall};
use serde_json::{Value, json};

use crate::world::{World, user};

const MINUTE: Duration = Duration::from_secs(60);

async fn state(world: &World, name: &str) -> Value {
    world.ok(&user(), "workspace_info", json!({ "workspace_id": name })).await["state"].clone()
}

/// A workspace that is destroyed or stopped after so many seconds.
async fn create_with(world: &World, caller: &Caller, name: &str, key: &str, seconds: u64) -> WorkspaceId {
    let made = world.ok(caller, "workspace_create", json!({ "name": name, key: seconds })).await;
    made["workspace_id"].as_str().unwrap().parse().unwrap()
}

/// Waits until the engine has looked at every workspace that is older than this: it looks in the order of their age.
async fn looked_at_all(world: &World) {
    create_with(world, &user(), "sentinel", "ttl_secs", 1).await;
    world.clock.advance(Duration::from_secs(1));
    world.look().await;
    world.until(async |world| !world.names().await.contains(&"sentinel".to_owned())).await;
}

/// The next event of a subscription.
async fn next(events: &mut Subscription) -> Event {
    match events.next().await {
        Delivered::Event(event) => event,
        Delivered::Missed(count) => panic!("{count} events were missed"),
    }
}

/// The names of workspaces in events before the one of a workspace.
async fn names(events: &mut Subscription, last: &str) -> Vec<String> {
    let mut names = Vec::new();
    loop {
        let event = next(events).await;
        if event.name == last {
            return names;
        }
        names.push(event.name);
    }
}

#[tokio::test]
async fn a_workspace_is_destroyed_when_its_time_is_up_and_not_before() {
    let world = World::new().await;
    let session = world.session("agent").await;
    create_with(&world, &session, "one", "ttl_secs", 60).await;
    world.clock.advance(Duration::from_secs(58));
    looked_at_all(&world).await;
    assert_eq!(world.names().await, ["one"], "59 s are over");
    world.clock.advance(Duration::from_secs(1));
    world.look().await;
    world.until(async |world| world.names().await.is_empty()).await;
    world.until(async |world| world.host.kept().is_empty()).await;
    let timeline = world.timeline().await;
    let entry = timeline
        .iter()
        .find(|event| event["action"] == "workspace_destroy" && event["workspace_name"] == "one");
    let entry = entry.unwrap();
    assert_eq!((&entry["client"], &entry["outcome"]), (&json!("agentiso"), &json!("ok")));
    assert_eq!(entry["detail"]["reason"], "its time was up");
}

#[tokio::test]
async fn setting_the_wall_clock_ends_nothing() {
    let world = World::new().await;
    create_with(&world, &user(), "one", "ttl_secs", 600).await;
    world.clock.set_wall(jiff::SignedDuration::from_hours(24 * 365));
    looked_at_all(&world).await;
    assert_eq!(world.names().await, ["one"]);
    let info = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await;
    let expires: jiff::Timestamp = info["expires_at"].as_str().unwrap().parse().unwrap();
    assert!(expires > agentiso_core::ports::Clock::wall(&*world.clock), "it is shown on the wall clock");
}

#[tokio::test]
async fn a_time_can_be_changed_and_taken_back() {
    let world = World::new().await;
    create_with(&world, &user(), "extended", "ttl_secs", 60).await;
    create_with(&world, &user(), "for-ever", "ttl_secs", 60).await;
    let update = |name: &str, seconds: u64| json!({ "workspace_id": name, "ttl_secs": seconds });
    world.ok(&user(), "workspace_update", update("extended", 120)).await;
    world.ok(&user(), "workspace_update", update("for-ever", 0)).await;
    world.clock.advance(Duration::from_secs(100));
    looked_at_all(&world).await;
    assert_eq!(world.names().await, ["extended", "for-ever"]);
    world.clock.advance(Duration::from_secs(100));
    looked_at_all(&world).await;
    assert_eq!(world.names().await, ["for-ever"]);
}

#[tokio::test]
async fn times_that_make_no_sense_are_refused() {
    let world = World::new().await;
    for key in ["ttl_secs", "idle_stop_secs"] {
        for seconds in [0u64, 10 * 366 * 24 * 3600, u64::MAX] {
            world.refused(&user(), "workspace_create", json!({ key: seconds }), Code::InvalidArgument).await;
        }
    }
    assert!(world.names().await.is_empty());
}

#[tokio::test]
async fn a_call_that_runs_when_time_is_up_learns_why_it_ended() {
    let world = World::new().await;
    let session = world.session("agent").await;
    create_with(&world, &session, "one", "ttl_secs", 60).await;
    let call = world.call(&session, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
    let end = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        world.clock.advance(MINUTE);
        world.look().await;
    };
    let (called, ()) = tokio::join!(call, end);
    assert!(called.is_err());
    world.until(async |world| world.names().await.is_empty()).await;
}

#[tokio::test]
async fn what_could_not_be_ended_is_tried_again_and_keeps_no_other_from_its_end() {
    let world = World::new().await;
    looked_at_all(&world).await;
    create_with(&world, &user(), "stubborn", "ttl_secs", 60).await;
    create_with(&world, &user(), "other", "ttl_secs", 60).await;
    world.host.faults().fail_once(HostCall::Remove, Code::Io);
    world.clock.advance(MINUTE);
    world.look().await;
    world.until(async |world| world.names().await == ["stubborn"]).await;
    world.look().await;
    world.until(async |world| world.names().await.is_empty()).await;
}

#[tokio::test]
async fn an_idle_workspace_is_stopped_and_keeps_its_files() {
    let world = World::new().await;
    let session = world.session("agent").await;
    create_with(&world, &session, "one", "idle_stop_secs", 60).await;
    world.sh(&session, "one", "echo kept > /root/kept").await;
    world.clock.advance(Duration::from_secs(58));
    looked_at_all(&world).await;
    assert_eq!(state(&world, "one").await, "running", "59 s are over");
    world.clock.advance(MINUTE);
    looked_at_all(&world).await;
    assert_eq!(state(&world, "one").await, "stopped");
    assert_eq!(world.sh(&session, "one", "cat /root/kept").await, "kept\n", "it starts when it is used");
    let timeline = world.timeline().await;
    let stop = timeline.iter().find(|event| event["action"] == "workspace_stop").unwrap();
    assert_eq!((&stop["client"], &stop["detail"]["reason"]), (&json!("agentiso"), &json!("it was idle")));
}

#[tokio::test]
async fn any_use_keeps_a_workspace_from_being_idle_and_looking_at_it_does_not() {
    let world = World::new().await;
    create_with(&world, &user(), "used", "idle_stop_secs", 60).await;
    create_with(&world, &user(), "watched", "idle_stop_secs", 60).await;
    world.clock.advance(Duration::from_secs(50));
    world.sh(&user(), "used", "true").await;
    for action in ["workspace_info", "snapshot_list", "port_forward_list", "workspace_logs"] {
        world.ok(&user(), action, json!({ "workspace_id": "watched" })).await;
    }
    looked_at_all(&world).await;
    world.clock.advance(Duration::from_secs(30));
    looked_at_all(&world).await;
    assert_eq!(
        (state(&world, "used").await, state(&world, "watched").await),
        (json!("running"), json!("stopped"))
    );
}

#[tokio::test]
async fn a_workspace_in_which_something_runs_is_not_idle() {
    let world = World::new().await;
    create_with(&world, &user(), "working", "idle_stop_secs", 60).await;
    let job = json!({ "workspace_id": "working", "command": "sleep 1000" });
    let job = world.ok(&user(), "exec_start", job).await["job_id"].clone();
    looked_at_all(&world).await;
    for _ in 0..3 {
        world.clock.advance(2 * MINUTE);
        looked_at_all(&world).await;
        assert_eq!(state(&world, "working").await, "running");
    }
    world.ok(&user(), "exec_kill", json!({ "workspace_id": "working", "job_id": job })).await;
    looked_at_all(&world).await;
    world.clock.advance(Duration::from_secs(30));
    looked_at_all(&world).await;
    assert_eq!(state(&world, "working").await, "running", "it is idle from when its work ended");
    world.clock.advance(MINUTE);
    looked_at_all(&world).await;
    assert_eq!(state(&world, "working").await, "stopped");
}

#[tokio::test]
async fn a_workspace_that_cannot_be_asked_is_not_taken_to_be_idle() {
    let world = World::new().await;
    create_with(&world, &user(), "silent", "idle_stop_secs", 60).await;
    looked_at_all(&world).await;
    let broken = agentiso_core::ports::link::GuestError {
        kind: agentiso_core::ports::link::ErrorKind::Io,
        errno: None,
        message: "made to fail".to_owned(),
    };
    world.host.link_faults().fail(LinkCall::Status, agentiso_core::ports::link::LinkError::Guest(broken));
    world.clock.advance(2 * MINUTE);
    looked_at_all(&world).await;
    assert_eq!(state(&world, "silent").await, "running", "nobody knows whether it is at work");
    world.host.link_faults().clear(LinkCall::Status);
    world.host.faults().fail(HostCall::Link, Code::Io);
    world.clock.advance(2 * MINUTE);
    looked_at_all(&world).await;
    world.host.faults().clear(HostCall::Link);
    assert_eq!(state(&world, "silent").await, "running", "nobody knows whether it is at work");
}

#[tokio::test]
async fn a_workspace_that_is_to_start_with_the_daemon_does_unless_it_was_stopped_on_purpose() {
    let mut world = World::new().await;
    for name in ["crashed", "stopped", "resumed", "plain"] {
        world.create(&user(), name).await;
    }
    for name in ["crashed", "stopped", "resumed"] {
        world.ok(&user(), "workspace_update", json!({ "workspace_id": name, "restart": true })).await;
    }
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "stopped" })).await;
    // A workspace that was suspended, stopped and then resumed is to run again.
    for action in ["workspace_suspend", "workspace_stop", "workspace_resume"] {
        world.ok(&user(), action, json!({ "workspace_id": "resumed" })).await;
    }
    for name in ["crashed", "resumed", "plain"] {
        let id = world.ok(&user(), "workspace_info", json!({ "workspace_id": name })).await["workspace_id"]
            .clone();
        world.host.crash(id.as_str().unwrap().parse().unwrap(), "power cut");
    }
    world.reopen().await;
    world.until(async |world| state(world, "crashed").await == "running").await;
    world.until(async |world| state(world, "resumed").await == "running").await;
    assert_eq!(
        (state(&world, "stopped").await, state(&world, "plain").await),
        (json!("stopped"), json!("stopped"))
    );
}

#[tokio::test]
async fn a_machine_that_ends_by_itself_is_noted_and_told_at_once() {
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    let mut events = world.engine.subscribe(&user());
    world.host.crash(id, "Kernel panic: no init");
    let event = next(&mut events).await;
    assert_eq!((event.kind, event.name.as_str()), (EventKind::Crashed, "one"));
    assert!(event.note.unwrap().contains("Kernel panic"));
    let info = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await;
    assert_eq!(info["state"], "stopped");
    assert!(info["stop_reason"].as_str().unwrap().contains("Kernel panic"), "{info}");
    assert!(world.workspace(id).await.machine().is_none());
}

#[tokio::test]
async fn a_machine_that_is_ended_on_purpose_is_not_told_as_a_crash() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let mut events = world.engine.subscribe(&user());
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one", "force": true })).await;
    world.ok(&user(), "workspace_start", json!({ "workspace_id": "one" })).await;
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "one" })).await;
    for kind in [EventKind::Stopped, EventKind::Started, EventKind::Destroyed] {
        assert_eq!(next(&mut events).await.kind, kind);
    }
}

#[tokio::test]
async fn events_are_sent_to_those_who_may_see_the_workspace() {
    for (world, nobodys_is_shown) in [(World::new().await, true), (World::strict().await, false)] {
        let (owner, other) = (world.session("owner").await, world.session("other").await);
        let mut subscriptions = [&owner, &other, &user()].map(|caller| world.engine.subscribe(caller));
        world.create(&owner, "owned").await;
        world.create(&user(), "nobodys").await;
        // The last event is one that everybody sees.
        for session in [&owner, &other] {
            world.create(session, &format!("last-of-{}", session.client)).await;
        }
        let [owner_sees, other_sees, user_sees] = &mut subscriptions;
        let nobodys = if nobodys_is_shown { vec!["nobodys"] } else { Vec::new() };
        assert_eq!(names(owner_sees, "last-of-owner").await, [vec!["owned"], nobodys.clone()].concat());
        assert_eq!(names(other_sees, "last-of-other").await, nobodys);
        assert_eq!(names(user_sees, "last-of-owner").await, ["owned", "nobodys"]);
    }
}

#[tokio::test]
async fn a_workspace_whose_time_was_up_while_nobody_was_there_is_destroyed_by_the_next_daemon() {
    let mut world = World::new().await;
    create_with(&world, &user(), "one", "ttl_secs", 60).await;
    world.create(&user(), "other").await;
    world.clock.advance(MINUTE);
    world.reopen().await;
    let mut events = world.engine.subscribe(&user());
    world.until(async |world| world.names().await == ["other"]).await;
    let event = next(&mut events).await;
    assert_eq!((event.kind, event.name.as_str()), (EventKind::Destroyed, "one"));
    assert_eq!(event.note.as_deref(), Some("its time was up"));
}
