//! Requests for approval: who sees and answers them, and what ends them.

use std::time::Duration;

use agentiso_core::Code;
use agentiso_core::approval::{Asked, NetworkDestination};
use agentiso_core::ports::records::{ApprovalRecords, Raised, SessionRecords, WorkspaceRecords};
use agentiso_core::wire::EventKind;
use agentiso_engine::{Caller, Delivered};
use serde_json::{Value, json};

use crate::world::{World, skip, user};

const HOUR: Duration = Duration::from_secs(3600);

fn destination(name: &str) -> Asked {
    Asked::Network { destination: NetworkDestination::Name(name.to_owned()) }
}

async fn ask(world: &World, owner: &Caller, workspace: &str, asked: Asked) -> Raised {
    let workspace = world.records.meta().find_workspace(workspace).await.unwrap();
    let session = match owner.session {
        Some(id) => world.records.meta().session_if_known(id).await.unwrap(),
        None => None,
    };
    world.engine.ask_approval(&workspace, session.as_ref(), asked, "not in allow_domains").await.unwrap()
}

/// Raises a request and returns its id.
pub async fn raise(world: &World, owner: &Caller, workspace: &str, name: &str) -> String {
    match ask(world, owner, workspace, destination(name)).await {
        Raised::New(request) => request.id.to_string(),
        other => panic!("{other:?}"),
    }
}

async fn listed(world: &World, caller: &Caller, arguments: Value) -> Vec<Value> {
    world.ok(caller, "inbox_list", arguments).await["requests"].as_array().unwrap().clone()
}

async fn state(world: &World, id: &str) -> String {
    let listed = listed(world, &user(), json!({ "request_id": id })).await;
    listed[0]["state"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_says_what_is_asked_by_whom_and_the_operator_answers_it() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    let id = raise(&world, &agent, "web", "a.example").await;

    let [request]: [_; 1] = listed(&world, &user(), json!({})).await.try_into().unwrap();
    assert_eq!(request["request_id"], id.as_str());
    assert_eq!(request["asked"], json!({ "kind": "network", "destination": "a.example" }));
    assert_eq!(request["summary"], "connect to a.example");
    assert_eq!((&request["workspace_name"], &request["client"]), (&json!("web"), &json!("agent")));
    assert_eq!(request["session_id"], agent.session.unwrap().to_string());
    assert_eq!((&request["state"], &request["can_answer"]), (&json!("open"), &json!(true)));

    let answered = world.ok(&user(), "inbox_grant", json!({ "request_id": &id[..8] })).await;
    assert_eq!(
        (&answered["request"]["state"], &answered["request"]["scope"]),
        (&json!("granted"), &json!("once"))
    );
    assert_eq!(listed(&world, &user(), json!({})).await, Vec::<Value>::new());
    let told: Vec<_> = world.timeline().await.iter().map(|event| event["action"].clone()).collect();
    assert!(told.contains(&json!("approval_request")) && told.contains(&json!("inbox_grant")), "{told:?}");
}

#[tokio::test]
async fn the_session_that_asked_cannot_answer_even_as_approver_or_as_a_later_owner() {
    let world = World::new().await;
    let (asker, other) = (world.session("asker").await, world.session("other").await);
    world.create(&asker, "web").await;
    let id = raise(&world, &asker, "web", "a.example").await;
    for caller in [&asker, &other] {
        let named = json!({ "session_id": caller.session.unwrap().to_string() });
        world.refused(&asker, "inbox_approver", named.clone(), Code::NotPermitted).await;
        world.ok(&user(), "inbox_approver", named).await;
    }
    for action in ["inbox_grant", "inbox_deny"] {
        world.refused(&asker, action, json!({ "request_id": id }), Code::NotPermitted).await;
    }
    let own = listed(&world, &asker, json!({ "request_id": id })).await;
    assert_eq!(own[0]["can_answer"], false);

    // The present owner would benefit from its own answer.
    let given = json!({ "workspace_id": "web", "session_id": other.session.unwrap().to_string() });
    world.ok(&user(), "workspace_grant", given).await;
    for caller in [&asker, &other] {
        world.refused(caller, "inbox_grant", json!({ "request_id": id }), Code::NotPermitted).await;
    }
    assert_eq!(state(&world, &id).await, "open");
}

#[tokio::test]
async fn another_session_learns_nothing_unless_it_is_an_approver() {
    let world = World::new().await;
    let (asker, other) = (world.session("asker").await, world.session("other").await);
    world.create(&asker, "web").await;
    let id = raise(&world, &asker, "web", "a.example").await;
    let unknown = "00000000-0000-4000-8000-000000000000";

    assert_eq!(listed(&world, &other, json!({ "all": true })).await, Vec::<Value>::new());
    for action in ["inbox_list", "inbox_grant", "inbox_deny"] {
        let hidden = world.refused(&other, action, json!({ "request_id": id }), Code::ApprovalNotFound).await;
        let absent =
            world.refused(&other, action, json!({ "request_id": unknown }), Code::ApprovalNotFound).await;
        assert_eq!(hidden.to_string().replace(&id, ""), absent.to_string().replace(unknown, ""));
    }
    world.refused(&asker, "inbox_list", json!({ "request_id": &id[..8] }), Code::ApprovalNotFound).await;

    let named = json!({ "session_id": other.session.unwrap().to_string() });
    world.ok(&user(), "inbox_approver", named.clone()).await;
    assert_eq!(listed(&world, &other, json!({})).await[0]["can_answer"], true);
    let mut taken = named;
    taken["approver"] = json!(false);
    world.ok(&user(), "inbox_approver", taken.clone()).await;
    world.refused(&other, "inbox_deny", json!({ "request_id": id }), Code::ApprovalNotFound).await;
    taken["approver"] = json!(true);
    world.ok(&user(), "inbox_approver", taken).await;
    // It would be for the approver's own workspaces too.
    let always = json!({ "request_id": id, "scope": "always" });
    let refused = world.refused(&other, "inbox_grant", always, Code::NotPermitted).await;
    assert!(refused.remedy().unwrap().contains("scope once"), "{refused:?}");
    let answered = world.ok(&other, "inbox_deny", json!({ "request_id": id })).await;
    assert_eq!(answered["request"]["state"], "denied");
}

#[tokio::test]
async fn equal_requests_are_one_and_a_denial_holds_for_an_hour() {
    let world = World::new().await;
    world.create(&user(), "web").await;
    let id = raise(&world, &user(), "web", "a.example").await;
    let again = ask(&world, &user(), "web", destination("a.example")).await;
    assert!(matches!(again, Raised::Waiting(request) if request.id.to_string() == id));

    world.ok(&user(), "inbox_deny", json!({ "request_id": id })).await;
    assert!(matches!(ask(&world, &user(), "web", destination("a.example")).await, Raised::Denied(_)));
    world.refused(&user(), "inbox_grant", json!({ "request_id": id }), Code::ApprovalClosed).await;
    world.clock.advance(HOUR);
    assert!(matches!(ask(&world, &user(), "web", destination("a.example")).await, Raised::New(_)));
}

#[tokio::test]
async fn a_grant_covers_exactly_what_was_asked_and_once_means_once() {
    let world = World::new().await;
    let (web, db) = (world.create(&user(), "web").await, world.create(&user(), "db").await);
    let command = |word: &str| Asked::Command {
        argv: vec!["rm".to_owned(), word.to_owned()],
        workdir: None,
        user: None,
    };
    let Raised::New(request) = ask(&world, &user(), "web", command("a")).await else { panic!("not new") };
    let grant = |scope: &str, id: String| json!({ "request_id": id, "scope": scope });
    world.ok(&user(), "inbox_grant", grant("once", request.id.to_string())).await;
    assert!(matches!(ask(&world, &user(), "web", command("a")).await, Raised::Granted(_)));
    assert!(!world.engine.use_approval(web, &command("b")).await.unwrap());
    assert!(!world.engine.use_approval(db, &command("a")).await.unwrap());
    assert!(world.engine.use_approval(web, &command("a")).await.unwrap());
    assert!(!world.engine.use_approval(web, &command("a")).await.unwrap());
    assert_eq!(state(&world, &request.id.to_string()).await, "used");

    let Raised::New(request) = ask(&world, &user(), "web", command("a")).await else { panic!("not new") };
    let id = request.id.to_string();
    world.ok(&user(), "inbox_grant", grant("workspace", id.clone())).await;
    for _ in 0..2 {
        assert!(world.engine.use_approval(web, &command("a")).await.unwrap());
        assert!(!world.engine.use_approval(db, &command("a")).await.unwrap());
    }
    world.ok(&user(), "inbox_deny", json!({ "request_id": id })).await;
    assert!(!world.engine.use_approval(web, &command("a")).await.unwrap(), "it was revoked");

    let Raised::New(request) = ask(&world, &user(), "web", command("c")).await else { panic!("not new") };
    world.ok(&user(), "inbox_grant", grant("always", request.id.to_string())).await;
    assert!(matches!(ask(&world, &user(), "db", command("c")).await, Raised::Granted(_)));
    world.ok(&user(), "workspace_destroy", json!({ "workspace_id": "web" })).await;
    assert!(world.engine.use_approval(db, &command("c")).await.unwrap(), "it outlives the workspace");
    assert_eq!(world.records.meta().approvals(None, 10).await.unwrap().len(), 1, "the others went with it");
}

#[tokio::test]
async fn a_grant_for_once_that_nobody_uses_ends() {
    let world = World::new().await;
    let web = world.create(&user(), "web").await;
    let asked = Asked::FileChange { path: "/etc/passwd".to_owned(), content_digest: "0".repeat(64) };
    let Raised::New(request) = ask(&world, &user(), "web", asked.clone()).await else { panic!("not new") };
    world.ok(&user(), "inbox_grant", json!({ "request_id": request.id.to_string() })).await;
    world.clock.advance(HOUR);
    assert!(!world.engine.use_approval(web, &asked).await.unwrap());
    world.look().await;
    world.until(async |world| state(world, &request.id.to_string()).await == "expired").await;
}

#[tokio::test]
async fn a_flood_of_requests_is_bounded_and_leaves_room_for_others() {
    let world = World::new().await;
    let (flooder, other) = (world.session("flooder").await, world.session("other").await);
    for name in ["a", "b", "c", "d", "e"] {
        world.create(&flooder, name).await;
    }
    world.create(&other, "calm").await;
    let session = world.records.meta().session_if_known(flooder.session.unwrap()).await.unwrap();
    let mut raised = 0;
    for name in ["a", "b", "c", "d", "e"] {
        let workspace = world.records.meta().find_workspace(name).await.unwrap();
        for number in 0..40 {
            let asked = destination(&format!("{number}.example"));
            match world.engine.ask_approval(&workspace, session.as_ref(), asked, "").await {
                Ok(Raised::New(_)) => raised += 1,
                Ok(other) => panic!("{other:?}"),
                Err(failure) => assert_eq!(failure.code(), Code::QuotaExceeded),
            }
        }
    }
    assert_eq!(raised, 64);
    raise(&world, &other, "calm", "a.example").await;
}

#[tokio::test]
async fn requests_survive_a_restart_and_expire() {
    let mut world = World::new().await;
    world.create(&user(), "web").await;
    let id = raise(&world, &user(), "web", "a.example").await;
    world.reopen().await;
    assert_eq!(state(&world, &id).await, "open");
    let mut events = world.engine.subscribe(&user());
    world.clock.advance(HOUR);
    world.look().await;
    let Delivered::Event(event) = events.next().await else { panic!("missed") };
    assert_eq!(event.kind, EventKind::ApprovalExpired);
    assert_eq!(state(&world, &id).await, "expired");
    world.refused(&user(), "inbox_grant", json!({ "request_id": id }), Code::ApprovalClosed).await;
}

#[tokio::test]
async fn owner_operator_and_approvers_hear_of_a_request_once_and_nobody_else_does() {
    let world = World::new().await;
    let (owner, approver, stranger) =
        (world.session("owner").await, world.session("approver").await, world.session("stranger").await);
    world.create(&owner, "web").await;
    world.ok(&user(), "inbox_approver", json!({ "session_id": approver.session.unwrap().to_string() })).await;
    let mut heard: Vec<_> =
        [&user(), &owner, &approver, &stranger].map(|caller| world.engine.subscribe(caller)).into();
    let id = raise(&world, &owner, "web", "a.example").await;
    world.ok(&approver, "inbox_grant", json!({ "request_id": id })).await;
    // The last event everybody who sees the workspace hears of.
    world.ok(&user(), "workspace_stop", json!({ "workspace_id": "web" })).await;
    for subscription in &mut heard[..3] {
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let Delivered::Event(event) = subscription.next().await else { panic!("missed") };
            assert!(event.note.unwrap().contains("a.example"));
            kinds.push(event.kind);
        }
        assert_eq!(kinds, [EventKind::ApprovalRequested, EventKind::ApprovalGranted]);
    }
    let quiet = tokio::time::timeout(Duration::ZERO, heard[3].next()).await;
    assert!(quiet.is_err(), "{quiet:?}");
}

#[tokio::test]
async fn a_client_can_wait_for_a_request_and_for_its_answer() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    let (operator, waits) = (user(), json!({ "wait_secs": 60 }));
    let (seen, id) =
        tokio::join!(listed(&world, &operator, waits.clone()), raise(&world, &agent, "web", "a.example"));
    assert_eq!(seen[0]["request_id"], id.as_str());
    let mut waits = waits;
    waits["request_id"] = json!(id);
    let grant = json!({ "request_id": id, "scope": "workspace" });
    let (answer, _) =
        tokio::join!(listed(&world, &agent, waits.clone()), world.ok(&operator, "inbox_grant", grant));
    assert_eq!(answer[0]["state"], "granted");

    let other = raise(&world, &agent, "web", "b.example").await;
    waits["request_id"] = json!(other);
    let (answer, ()) = tokio::join!(listed(&world, &agent, waits), skip(Duration::from_secs(61)));
    assert_eq!(answer[0]["state"], "open", "nobody answered in time");
}
