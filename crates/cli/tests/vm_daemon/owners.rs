//! Giving workspaces to sessions on the command line. What a new owner gets is tested in `crates/engine/tests/rules`.

use serde_json::json;

use crate::place::Place;

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
