//! Refused destinations that raise requests for approval.

use std::time::Duration;

use agentiso_core::ports::records::{ApprovalRecords, WorkspaceRecords};
use agentiso_core::wire::EventKind;
use agentiso_core::{Code, NetworkEvent, NetworkRules, WorkspaceId};
use agentiso_engine::{Caller, Delivered};
use serde_json::{Value, json};

use crate::network::{NOT_LISTED, entry, where_the_operator_is_asked};
use crate::world::{World, user};

const ONCE: Duration = Duration::from_secs(600);

async fn rules(world: &World, name: &str) -> NetworkRules {
    world.records.meta().find_workspace(name).await.unwrap().network.rules
}

async fn domains(world: &World, name: &str) -> Vec<String> {
    rules(world, name).await.allow_domains.unwrap()
}

/// A workspace that asks.
async fn asking(world: &World, owner: &Caller, name: &str) -> WorkspaceId {
    let created = json!({ "name": name, "network": { "ask": "refuse" } });
    let created = world.ok(owner, "workspace_create", created).await;
    created["workspace_id"].as_str().unwrap().parse().unwrap()
}

/// Waits for the request that a refusal raises, and returns it.
async fn request(world: &World, name: &str) -> Value {
    loop {
        let listed = world.ok(&user(), "inbox_list", json!({ "wait_secs": 60 })).await;
        let mut requests = listed["requests"].as_array().unwrap().iter();
        if let Some(found) = requests.find(|one| one["summary"] == format!("connect to {name}")) {
            return found.clone();
        }
        tokio::task::yield_now().await;
    }
}

async fn refuse(world: &World, workspace: WorkspaceId, name: &str) -> String {
    world.network.append(entry(workspace, NetworkEvent::Refused, name, NOT_LISTED));
    request(world, name).await["request_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_refused_destination_raises_a_request_that_the_owner_sees_and_cannot_answer() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    let web = asking(&world, &agent, "web").await;
    let mut events = world.engine.subscribe(&agent);
    let id = refuse(&world, web, "a.example").await;
    let mut kinds = Vec::new();
    for _ in 0..2 {
        let Delivered::Event(event) = events.next().await else { panic!("missed") };
        assert!(event.note.unwrap().contains("a.example"));
        kinds.push(event.kind);
    }
    assert_eq!(kinds, [EventKind::NetworkRefused, EventKind::ApprovalRequested]);
    let own = world.ok(&agent, "inbox_list", json!({})).await;
    assert_eq!(own["requests"][0]["reason"], format!("tcp port 443: {NOT_LISTED}"));
    assert_eq!(own["requests"][0]["client"], "agent");
    world.refused(&agent, "inbox_grant", json!({ "request_id": id }), Code::NotPermitted).await;
    assert_eq!(domains(&world, "web").await, Vec::<String>::new());
}

#[tokio::test]
async fn granted_once_is_open_for_ten_minutes_and_not_in_forks() {
    let mut world = World::new().await;
    let web = asking(&world, &user(), "web").await;
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "inbox_grant", json!({ "request_id": id })).await;
    assert_eq!(domains(&world, "web").await, ["a.example"]);
    let shown = world.ok(&user(), "network_policy", json!({ "workspace_id": "web" })).await;
    assert_eq!(shown["open_for_now"], json!(["a.example"]));
    world.ok(&user(), "workspace_fork", json!({ "workspace_id": "web", "new_name": "fork" })).await;
    assert_eq!(domains(&world, "fork").await, Vec::<String>::new());

    // It ends although the daemon was restarted in between.
    world.reopen().await;
    assert_eq!(domains(&world, "web").await, ["a.example"]);
    world.clock.advance(ONCE);
    world.look().await;
    world.until(async |world| domains(world, "web").await.is_empty()).await;
    let over = async |world: &World| {
        let listed = world.ok(&user(), "inbox_list", json!({ "request_id": id })).await;
        listed["requests"][0]["state"] == "used"
    };
    world.until(over).await;
}

#[tokio::test]
async fn a_destination_that_was_allowed_by_hand_meanwhile_stays() {
    let world = World::new().await;
    let web = asking(&world, &user(), "web").await;
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "inbox_grant", json!({ "request_id": id })).await;
    let by_hand = json!({ "workspace_id": "web", "allow_domains": ["a.example"] });
    let set = world.ok(&user(), "network_policy", by_hand).await;
    assert_eq!(set.get("open_for_now"), None);
    world.clock.advance(ONCE);
    world.look().await;
    let other = refuse(&world, web, "b.example").await;
    world.ok(&user(), "inbox_deny", json!({ "request_id": other })).await;
    assert_eq!(domains(&world, "web").await, ["a.example"]);
}

#[tokio::test]
async fn a_session_cannot_keep_what_was_granted_to_it_once() {
    let world = where_the_operator_is_asked().await;
    let agent = world.session("agent").await;
    let web = world.create(&agent, "web").await;
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "inbox_grant", json!({ "request_id": id })).await;
    let set = |rules: Value| {
        let mut change = rules;
        change["workspace_id"] = json!("web");
        change
    };
    let kept = set(json!({ "allow_domains": ["a.example"] }));
    world.refused(&agent, "network_policy", kept, Code::ApprovalRequired).await;
    world.ok(&agent, "network_policy", set(json!({ "deny_domains": ["b.example"] }))).await;
    assert_eq!(domains(&world, "web").await, ["a.example"], "still open, and still for ten minutes");
    world.ok(&agent, "network_policy", set(json!({ "allow_domains": [] }))).await;
    assert_eq!(domains(&world, "web").await, Vec::<String>::new());
}

#[tokio::test]
async fn an_alert_is_told_of_and_raises_no_request() {
    let world = World::new().await;
    let web = asking(&world, &user(), "web").await;
    let mut events = world.engine.subscribe(&user());
    world.network.append(entry(web, NetworkEvent::Alert, "a.example", "secret TOKEN: misplaced"));
    let Delivered::Event(event) = events.next().await else { panic!("missed") };
    assert_eq!(event.kind, EventKind::NetworkRefused);
    assert!(event.note.unwrap().contains("secret TOKEN"));
    refuse(&world, web, "b.example").await;
    assert_eq!(world.records.meta().approvals(None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn granted_for_the_workspace_lasts_until_it_is_revoked_and_is_for_it_alone() {
    let world = World::new().await;
    let (web, _) = (asking(&world, &user(), "web").await, asking(&world, &user(), "db").await);
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "inbox_grant", json!({ "request_id": id, "scope": "workspace" })).await;
    world.clock.advance(ONCE);
    world.look().await;
    assert_eq!(domains(&world, "web").await, ["a.example"]);
    assert_eq!(domains(&world, "db").await, Vec::<String>::new());
    world.ok(&user(), "inbox_deny", json!({ "request_id": id })).await;
    assert_eq!(domains(&world, "web").await, Vec::<String>::new());
}

#[tokio::test]
async fn granted_always_is_for_present_and_new_workspaces_that_ask() {
    let world = World::new().await;
    let (web, _) = (asking(&world, &user(), "web").await, asking(&world, &user(), "db").await);
    let silent = json!({ "name": "silent", "network": { "allow_internet": true, "allow_domains": [] } });
    world.ok(&user(), "workspace_create", silent).await;
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "inbox_grant", json!({ "request_id": id, "scope": "always" })).await;
    asking(&world, &user(), "new").await;
    for name in ["web", "db", "new"] {
        assert_eq!(domains(&world, name).await, ["a.example"], "{name}");
    }
    assert_eq!(domains(&world, "silent").await, Vec::<String>::new());
    world.ok(&user(), "inbox_deny", json!({ "request_id": id })).await;
    for name in ["web", "db", "new"] {
        assert_eq!(domains(&world, name).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn a_grant_that_cannot_be_carried_out_leaves_the_request_open() {
    let world = World::new().await;
    let web = asking(&world, &user(), "web").await;
    let full: Vec<String> = (0..1024).map(|number| format!("h{number}.example")).collect();
    let id = refuse(&world, web, "a.example").await;
    world.ok(&user(), "network_policy", json!({ "workspace_id": "web", "allow_domains": full })).await;
    world.refused(&user(), "inbox_grant", json!({ "request_id": id }), Code::InvalidArgument).await;
    let listed = world.ok(&user(), "inbox_list", json!({ "request_id": id })).await;
    assert_eq!(listed["requests"][0]["state"], "open");
}

#[tokio::test]
async fn a_guest_that_floods_raises_few_requests_and_others_still_can() {
    let world = World::new().await;
    let (flooder, calm) = (world.session("flooder").await, world.session("calm").await);
    let flood = asking(&world, &flooder, "flood").await;
    let quiet = asking(&world, &calm, "quiet").await;
    for number in 0..2000 {
        let name = format!("h{number}.example");
        world.network.append(entry(flood, NetworkEvent::Refused, &name, NOT_LISTED));
    }
    refuse(&world, quiet, "a.example").await;
    let raised = world.records.meta().approvals(None, 10_000).await.unwrap();
    assert_eq!(raised.iter().filter(|one| one.workspace == flood).count(), 16);
}

#[tokio::test]
async fn what_is_not_asked_about_raises_nothing() {
    let world = World::new().await;
    let web = asking(&world, &user(), "web").await;
    let silent = world.create(&user(), "silent").await;
    world.network.append(entry(silent, NetworkEvent::Refused, "a.example", NOT_LISTED));
    world.network.append(entry(web, NetworkEvent::Refused, "b.example", "deny_domains: b.example"));
    world.network.append(entry(web, NetworkEvent::Failed, "c.example", "allow_domains: c.example"));
    world.network.append(entry(web, NetworkEvent::Refused, "*.example", NOT_LISTED));
    refuse(&world, web, "last.example").await;
    assert_eq!(world.records.meta().approvals(None, 10).await.unwrap().len(), 1);
}
