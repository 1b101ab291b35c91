//! Unresponsive machines: their QEMU is stopped by a signal, so that neither guest nor monitor responds.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::http::Http;
use crate::place::{Place, until};

/// Stops the QEMU of a workspace.
fn silence(user: &Http, name: &str) {
    let pid = user.act("workspace_info", json!({"workspace_id": name}))["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
}

#[test]
fn an_unresponsive_machine_can_be_stopped_destroyed_and_expire() {
    let place = Place::new();
    let user = place.http();
    let mut changes = user.events("GET", "/v1/events", None);
    changes.wait_for_head();
    for name in ["forced", "polite", "destroyed", "brief", "later"] {
        user.act("workspace_create", json!({"name": name}));
        silence(&user, name);
    }
    let asked = json!({"workspace_id": "forced", "force": true});
    let forced = user.act("workspace_stop", asked);
    assert_eq!(forced["state"], "stopped", "{forced}");
    let polite = user.act("workspace_stop", json!({"workspace_id": "polite", "timeout_secs": 1}));
    assert_eq!(polite["state"], "stopped", "{polite}");
    user.act("workspace_destroy", json!({"workspace_id": "destroyed"}));
    user.act("workspace_update", json!({"workspace_id": "brief", "ttl_secs": 1}));
    until(|| user.names() == ["forced", "polite", "later"]);

    // Machines that were ended on purpose are not reported as crashed.
    let mut told = Vec::new();
    while told.len() < 4 {
        let (kind, data) = changes.next().unwrap();
        let name = data["name"].as_str().unwrap().to_owned();
        if kind != "created" && name != "later" {
            told.push((name, kind));
        }
    }
    told.sort();
    let expected =
        [("brief", "destroyed"), ("destroyed", "destroyed"), ("forced", "stopped"), ("polite", "stopped")];
    assert_eq!(told, expected.map(|(name, kind)| (name.to_owned(), kind.to_owned())));

    // A new daemon does not need a response from the machine either.
    place.kill_daemon();
    place.run(&["daemon", "start"]);
    user.act("workspace_destroy", json!({"workspace_id": "later"}));
    assert_eq!(user.names(), ["forced", "polite"]);
    until(|| place.machines().is_empty());
    assert_eq!(user.act("workspace_start", json!({"workspace_id": "forced"}))["state"], "running");
}
