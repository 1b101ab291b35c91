//! Workspaces that are destroyed when they expire, and stopped when idle.

use serde_json::{Value, json};

use crate::http::Events;
use crate::place::{Place, until};

/// Waits for the next event of a workspace. Ignores events of others.
fn next_of(changes: &mut Events, name: &str) -> (String, Value) {
    loop {
        let (kind, data) = changes.next().unwrap_or_else(|| panic!("nothing more happens to {name}"));
        if data["name"] == name {
            return (kind, data);
        }
    }
}

#[test]
fn a_workspace_is_destroyed_when_it_expires_and_not_before() {
    let place = Place::new();
    let (user, session) = (place.http(), place.session("one"));
    let mut changes = user.events("GET", "/v1/events", None);
    changes.wait_for_head();
    for ttl in [json!(0), json!(-1), json!(u64::MAX), json!("1")] {
        session
            .refused("workspace_create", json!({"name": "never", "ttl_secs": ttl}))
            .is("invalid_argument", &[]);
    }
    session.act("workspace_create", json!({"name": "lasting", "ttl_secs": 86_400}));
    session.act("workspace_create", json!({"name": "spared", "ttl_secs": 3600}));
    assert_eq!(
        session.act("workspace_update", json!({"workspace_id": "spared", "ttl_secs": 0}))["expires_at"],
        Value::Null
    );
    let made = session.act("workspace_create", json!({"name": "brief", "ttl_secs": 1}));
    assert!(made["expires_at"].is_string(), "{made}");
    let (kind, data) = next_of(&mut changes, "brief");
    assert_eq!(kind, "created", "{data}");
    let (kind, data) = next_of(&mut changes, "brief");
    assert_eq!((kind.as_str(), &data["note"]), ("destroyed", &json!("its time was up")));
    assert_eq!(
        (session.names(), place.machines().len()),
        (vec!["lasting".to_owned(), "spared".to_owned()], 2)
    );
    assert_eq!(std::fs::read_dir(place.path().join("workspaces")).unwrap().count(), 2);
    session.refused("workspace_info", json!({"workspace_id": "brief"})).is("workspace_not_found", &["brief"]);
    assert_eq!(session.act("server_status", json!({}))["usage"]["workspaces"], 2);
    let remembered = user.act("timeline", json!({}));
    let events = remembered["events"].as_array().unwrap();
    let own =
        events.iter().find(|event| event["client"] == "agentiso").expect("an action of the daemon itself");
    assert_eq!((&own["action"], &own["workspace_name"]), (&json!("workspace_destroy"), &json!("brief")));

    // A workspace that expires while no daemon runs is destroyed by the next one.
    session.act("workspace_update", json!({"workspace_id": "lasting", "ttl_secs": 1}));
    place.kill_daemon();
    place.run(&["daemon", "start"]);
    until(|| user.names() == ["spared"]);
    until(|| place.machines().len() == 1);
}

#[test]
fn an_idle_workspace_is_stopped_and_a_busy_one_is_not() {
    let place = Place::new();
    let (user, session) = (place.http(), place.session("one"));
    let mut changes = user.events("GET", "/v1/events", None);
    changes.wait_for_head();
    session
        .refused("workspace_create", json!({"name": "never", "idle_stop_secs": 0}))
        .is("invalid_argument", &[]);
    // All of them count as idle from here on.
    session.act("workspace_create", json!({"name": "busy"}));
    let job = session.act("exec_start", json!({"workspace_id": "busy", "command": "exec sleep 1000"}));
    session.act("workspace_create", json!({"name": "spared", "idle_stop_secs": 3600}));
    let spared = session.act("workspace_update", json!({"workspace_id": "spared", "idle_stop_secs": 0}));
    assert_eq!(spared["idle_stop_secs"], Value::Null);
    session.act("workspace_create", json!({"name": "called"}));
    let calling = session.clone();
    let call = std::thread::spawn(move || {
        calling.sh("called", "until test -e /run/enough; do sleep 0.1; done; echo done")
    });
    until(|| {
        session.act("exec", json!({"workspace_id": "called", "command": "pgrep -f run/enough"}))["exit_code"]
            == 0
    });
    for name in ["busy", "called"] {
        session.act("workspace_update", json!({"workspace_id": name, "idle_stop_secs": 1}));
    }
    session.act("workspace_create", json!({"name": "idle", "idle_stop_secs": 1}));

    let stopped = |changes: &mut Events, name: &str| loop {
        let (kind, data) = next_of(changes, name);
        if kind != "created" {
            assert_eq!((kind.as_str(), &data["note"]), ("stopped", &json!("it was idle")), "{data}");
            break;
        }
    };
    stopped(&mut changes, "idle");
    let state = |name: &str| {
        let listed = user.act("workspace_list", json!({}));
        let found = listed["workspaces"].as_array().unwrap().iter().find(|one| one["name"] == name);
        found.unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(["idle", "busy", "called", "spared"].map(state), ["stopped", "running", "running", "running"]);
    session
        .refused("exec_list", json!({"workspace_id": "idle"}))
        .is("workspace_not_running", &["idle", "start"]);
    session.act("exec", json!({"workspace_id": "idle", "command": "true"}));
    assert_eq!(next_of(&mut changes, "idle").0, "started", "its stop was not a crash");
    stopped(&mut changes, "idle");
    assert_eq!(["idle", "busy", "called", "spared"].map(state), ["stopped", "running", "running", "running"]);

    // A workspace with running work is in use, regardless of its last call.
    let meta = agentiso_meta::Meta::open(&place.path().join("state.db")).unwrap();
    let last_used = || {
        let busy = meta.read(|read| read.settings(read.find_workspace("busy")?.id));
        busy.unwrap().last_used
    };
    let before = last_used();
    until(|| last_used() > before);

    // End the work.
    session.act("exec_kill", json!({"workspace_id": "busy", "job_id": job["job_id"]}));
    stopped(&mut changes, "busy");
    user.act("workspace_update", json!({"workspace_id": "called", "idle_stop_secs": 1}));
    user.sh("called", "touch /run/enough");
    assert_eq!(call.join().unwrap(), "done");
    stopped(&mut changes, "called");
    assert_eq!(["idle", "busy", "called", "spared"].map(state), ["stopped", "stopped", "stopped", "running"]);
}
