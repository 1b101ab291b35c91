//! What a new owner of a workspace gets, and what not.

use serde_json::json;

use crate::http::Http;
use crate::place::Place;

/// A session that sets a secret and then ends.
fn leave(owner: &Http) {
    assert_eq!(owner.request("DELETE", "/v1/sessions/current", None).status, 200);
}

fn set(http: &Http, name: &str, value: &str) {
    http.act("set_env", json!({"workspace_id": "web", "vars": {name: value}}));
}

fn seen(http: &Http, workspace: &str) -> String {
    http.sh(workspace, "echo ${SECRET-none} ${OF_USER-none}")
}

#[test]
fn variables_of_one_session_never_reach_the_next_in_any_state_of_the_workspace() {
    let place = Place::new();
    let (user, one) = (place.http(), place.session("one"));
    one.act("workspace_create", json!({"name": "web"}));
    set(&user, "OF_USER", "kept");
    set(&one, "SECRET", "ones");
    assert_eq!(seen(&one, "web"), "ones kept");
    leave(&one);

    // While it runs: with a shell, a job or a command.
    let two = place.session("two");
    let job = two.act("exec_start", json!({"workspace_id": "web", "command": "echo ${SECRET-none}"}));
    let wait = json!({"workspace_id": "web", "job_id": job["job_id"], "wait": "exit", "wait_secs": 300});
    assert_eq!(two.act("exec_poll", wait)["stdout"], "none\n");
    assert_eq!(seen(&two, "web"), "none kept");

    // While it is suspended, with another daemon since.
    set(&two, "SECRET", "twos");
    two.act("workspace_suspend", json!({"workspace_id": "web"}));
    place.kill_daemon();
    place.run(&["daemon", "start"]);
    leave(&two);
    let three = place.session("three");
    assert_eq!(seen(&three, "web"), "none kept");

    // In a snapshot with memory, restored and forked.
    set(&three, "SECRET", "threes");
    three.act("snapshot_create", json!({"workspace_id": "web", "name": "before", "include_memory": true}));
    assert_eq!(seen(&three, "web"), "threes kept");
    leave(&three);
    let four = place.session("four");
    four.act("snapshot_restore", json!({"workspace_id": "web", "snapshot_name": "before"}));
    assert_eq!(seen(&four, "web"), "none kept");
    let fork = json!({"workspace_id": "web", "snapshot_name": "before", "new_name": "fork"});
    four.act("workspace_fork", fork);
    assert_eq!(seen(&four, "fork"), "none kept");
    four.act("workspace_destroy", json!({"workspace_id": "fork"}));

    // While it is stopped.
    set(&four, "SECRET", "fours");
    four.act("workspace_stop", json!({"workspace_id": "web"}));
    leave(&four);
    let five = place.session("five");
    assert_eq!(seen(&five, "web"), "none kept");
    assert_eq!(five.act("workspace_info", json!({"workspace_id": "web"}))["env_names"], json!(["OF_USER"]));
}

#[test]
fn a_call_ends_with_its_session() {
    let place = Place::new();
    let (user, one) = (place.http(), place.session("one"));
    one.act("workspace_create", json!({"name": "web"}));
    let caller = one.clone();
    let call = std::thread::spawn(move || {
        let command = "touch /run/begun; exec sleep 1000";
        caller.refused("exec", json!({"workspace_id": "web", "command": command}))
    });
    user.sh("web", "timeout 60 sh -c 'until test -e /run/begun; do sleep 0.05; done'");
    leave(&one);
    call.join().unwrap().is("not_owner", &["cut off"]);
    let gone =
        "timeout 60 sh -c 'while pgrep -x -f \"sleep 1000\"; do sleep 0.05; done' > /dev/null && echo gone";
    assert_eq!(place.session("two").sh("web", gone), "gone");
}

#[test]
fn the_user_can_grant_a_workspace_to_a_session() {
    let place = Place::configured("[sessions]\nisolation = \"strict\"\n");
    let (user, one) = (place.http(), place.session("one"));
    user.act("workspace_create", json!({"name": "web"}));
    one.refused("exec", json!({"workspace_id": "web", "command": "true"})).is("workspace_not_found", &[]);
    let session = one.act("server_status", json!({}))["session_id"].as_str().unwrap().to_owned();
    let listed = place.run(&["sessions"]);
    assert!(listed.contains(&session) && listed.contains("one"), "{listed}");
    let given = place.run(&["grant", "web", &session[..8]]);
    assert!(given.contains(&session), "{given}");
    assert_eq!(one.sh("web", "hostname"), "web");
}
