//! The pool of started machines, as maintained by the daemon.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::place::{Place, until};

const POOL: &str = "[defaults]\nmemory_mb = 256\n[pool]\nsize = 2\nmemory_mb = 512\n";

fn status(place: &Place) -> Value {
    serde_json::from_str(&place.run(&["status", "--json"])).unwrap()
}

fn machines(place: &Place) -> BTreeSet<u32> {
    place.machines().into_iter().collect()
}

#[test]
fn the_pool_is_filled_for_an_agent_refilled_after_a_claim_and_ends_with_the_daemon() {
    let place = Place::configured(POOL);
    // Commands that only read do not fill the pool.
    let before = status(&place);
    assert_eq!((&before["pool"], &before["pool_wanted"]), (&json!(0), &json!(0)), "{before}");
    let mut mcp = place.mcp(&[]);
    until(|| status(&place)["pool"] == json!(2));
    let ready = machines(&place);
    assert_eq!(ready.len(), 2);
    assert_eq!(mcp.call("workspace_list", json!({}))["count"], 0);
    assert_eq!(place.run(&["ls", "-q"]), "");

    // The next daemon takes over the pool of a killed one.
    place.kill_daemon();
    let info = mcp.call("workspace_create", json!({"name": "one"}));
    assert_eq!(info["from_pool"], true, "{info}");
    let pid = mcp.call("workspace_info", json!({"workspace_id": "one"}))["pid"].as_u64().unwrap();
    let pid = u32::try_from(pid).unwrap();
    assert!(ready.contains(&pid));
    until(|| status(&place)["pool"] == json!(2));
    let other: Vec<u32> = ready.iter().copied().filter(|&one| one != pid).collect();
    assert!(machines(&place).is_superset(&ready), "{other:?} was ended");
    assert_eq!(machines(&place).len(), 3);

    drop(mcp);
    place.run(&["daemon", "stop"]);
    assert_eq!(machines(&place), BTreeSet::from([pid]), "only the machine of the workspace keeps running");
    place.run(&["rm", "--force", "one"]);
}

#[test]
fn a_daemon_that_ends_while_it_fills_the_pool_leaves_no_machine() {
    let place = Place::configured(POOL);
    let mcp = place.mcp(&[]);
    until(|| !machines(&place).is_empty());
    drop(mcp);
    place.run(&["daemon", "stop"]);
    assert_eq!(machines(&place), BTreeSet::new());
    let dirs = std::fs::read_dir(place.path().join("workspaces")).unwrap();
    let left: Vec<_> =
        dirs.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    assert!(left.is_empty(), "{left:?}");
}
