//! Sessions over HTTP. What sessions may do is tested in `crates/engine/tests/rules`.

use serde_json::json;

use crate::place::Place;

#[test]
fn a_session_is_refused_with_the_right_status_and_ends_when_it_says_so() {
    let place = Place::configured("[rate_limit]\ndefault_per_minute = 2\n");
    let one = place.session("one");
    one.act("workspace_list", json!({}));
    one.act("workspace_list", json!({}));
    let refused = one.request("GET", "/v1/workspaces", None);
    refused.is_refusal(429, "rate_limited").is("rate_limited", &["wait "]);
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    assert_eq!(one.request("DELETE", "/v1/sessions/current", None).json()["ended"], true);
    one.request("GET", "/v1/status", None).is_refusal(401, "unauthorized");
    assert!(place.machines().is_empty());
}
