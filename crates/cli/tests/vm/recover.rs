//! Recovery of workspaces after the database is lost.

use std::fs;

use crate::place::Place;

#[test]
fn workspaces_and_snapshots_can_be_recovered_without_the_database() {
    let place = Place::with("web");
    place.sh("web", "echo one > /root/state; sync");
    place.text(&["snapshot", "create", "web", "with-memory", "--memory"]);
    place.sh("web", "echo two > /root/state; sync");
    place.text(&["fork", "web", "--name", "copy"]);
    // The machines keep running, but will be unknown.
    place.text(&["daemon", "stop"]);
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(place.path().join(file));
    }
    assert!(place.names().is_empty());
    assert!(place.left().is_empty(), "{:?}", place.left());
    let report = place.json(&["check"]);
    let lost = report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "lost");
    assert_eq!(lost.unwrap()["standing"], "warning", "{report}");

    let seen = place.json(&["recover"]);
    assert_eq!(
        (&seen["applied"], seen["workspaces"].as_array().unwrap().len()),
        (&false.into(), 2),
        "{seen}"
    );
    assert!(place.names().is_empty());
    let done = place.json(&["recover", "--apply"]);
    assert!(done["workspaces"].as_array().unwrap().iter().all(|one| one["problem"].is_null()), "{done}");

    let mut names = place.names();
    names.sort();
    assert_eq!(names, ["copy", "web"]);
    for name in ["web", "copy"] {
        place.text(&["start", name]);
        assert_eq!(place.sh(name, "cat /root/state").trim_end(), "two");
    }
    place.text(&["snapshot", "restore", "web", "with-memory"]);
    assert_eq!(place.sh("web", "cat /root/state").trim_end(), "one");
    assert_eq!(place.snapshots("web").len(), 1);
}
