//! What a workspace reaches, in an internet of network namespaces. Needs root.

use agentiso_testing::internet::Internet;
use serde_json::Value;

use crate::common::text;
use crate::place::Place;

const FETCH: &str = "import urllib.request; print(urllib.request.urlopen('http://web.example/').status)";

fn fetches(place: &Place) -> bool {
    let output = place.output(&["exec", "web", "python3", "-c", FETCH]);
    let said = text(&output.stderr);
    assert!(output.status.success() || said.contains("urlopen error"), "{said}");
    output.status.success()
}

fn requests(place: &Place) -> Vec<Value> {
    let listed = place.json(&["inbox", "ls", "--wait", "60s"]);
    listed["requests"].as_array().unwrap().clone()
}

#[test]
fn a_refused_name_is_asked_about_granted_reached_logged_and_revoked() {
    let internet = Internet::new();
    let place = Place::new();
    let inside = place.command(&["daemon", "start"]);
    let mut start = internet.command(0, inside.get_program());
    start.args(inside.get_args());
    for (name, value) in inside.get_envs() {
        match value {
            Some(value) => start.env(name, value),
            None => start.env_remove(name),
        };
    }
    let started = start.output().unwrap();
    assert!(started.status.success(), "{}", text(&started.stderr));

    place.json(&["create", "--name", "web", "--ask", "refuse"]);
    assert!(!fetches(&place));
    let [request]: [Value; 1] = requests(&place).try_into().unwrap();
    assert_eq!(request["summary"], "connect to web.example");
    let id = request["request_id"].as_str().unwrap();
    place.json(&["inbox", "grant", id, "--workspace"]);
    assert!(fetches(&place));
    let shown = place.json(&["net", "show", "web"]);
    assert_eq!(shown["network_policy"]["allow_domains"], serde_json::json!(["web.example"]));

    let logged = || {
        let log = place.json(&["net", "log", "web", "-n", "1000"]);
        let entries = log["entries"].as_array().unwrap().clone();
        entries.iter().map(|one| (one["event"].clone(), one["name"].clone())).collect::<Vec<_>>()
    };
    let opened = (Value::from("opened"), Value::from("web.example"));
    while !logged().contains(&opened) {
        std::thread::yield_now();
    }
    place.json(&["inbox", "deny", id]);
    assert!(!fetches(&place), "the grant was revoked");
    let off = place.json(&["net", "policy", "web", "--net", "off"]);
    assert_eq!(off["ip"], Value::Null);
}
