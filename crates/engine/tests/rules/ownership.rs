//! Who may use what.
//!
//! References are taken from the actions themselves: every text parameter gets a word, and the action says whether it
//! refers to something by it. So a new action, or a new reference of one, is tried without being listed here.

use agentiso_core::{Code, WorkspaceId};
use agentiso_engine::Caller;
use serde_json::{Map, Value, json};

use crate::actions::{ALL, Entry};
use crate::world::{World, user};

const WORD: &str = "a-word-nobody-uses";

/// A parameter of an action that refers to something.
struct Reference {
    entry: &'static Entry,
    parameter: String,
}

/// Every reference of every action.
fn references() -> Vec<Reference> {
    let mut found = Vec::new();
    for entry in ALL {
        let schema = (entry.schema)();
        for parameter in schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
            let mut arguments = ordinary(&schema, "mine");
            arguments.insert(parameter.clone(), json!(WORD));
            let subjects = (entry.subjects)(&Value::Object(arguments));
            if subjects.is_some_and(|subjects| subjects.iter().any(|subject| subject == WORD)) {
                found.push(Reference { entry, parameter: parameter.clone() });
            }
        }
    }
    found
}

/// The arguments an action needs, about a workspace.
fn ordinary(schema: &Value, workspace: &str) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| {
        let about = &schema["properties"][name];
        match name {
            "workspace_id" => json!(workspace),
            "snapshot_name" => json!("first"),
            "path" | "file_path" | "guest_path" | "new_path" | "host_path" => json!("/tmp/file"),
            _ if about["enum"].is_array() => about["enum"][0].clone(),
            _ => match about["type"].as_str() {
                Some("integer") => json!(1),
                Some("object") => json!({}),
                Some("array") => json!([]),
                Some("boolean") => json!(false),
                _ => json!("text"),
            },
        }
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}

/// An attacker with a workspace of its own, and a victim with one that is worth attacking.
struct Scene {
    world: World,
    attacker: Caller,
    victim: Caller,
    theirs: WorkspaceId,
}

impl Scene {
    async fn new(world: World) -> Self {
        let (attacker, victim) = (world.session("attacker").await, world.session("victim").await);
        let theirs = prepare(&world, &victim, "theirs").await;
        prepare(&world, &attacker, "mine").await;
        Self { world, attacker, victim, theirs }
    }

    /// Calls every action with every reference written in every way. Each must be refused with an expected code and
    /// change nothing. Returns how many were tried.
    async fn attack(&self, mut expected: impl FnMut(&Reference, Code) -> bool) -> usize {
        let before = self.snapshot().await;
        let mut tried = 0;
        for reference in references() {
            let schema = (reference.entry.schema)();
            for spelling in self.spellings() {
                let mut arguments = ordinary(&schema, "mine");
                arguments.insert(reference.parameter.clone(), json!(spelling));
                let name = reference.entry.about.name;
                let shown = format!("{name} with {} {spelling:?}", reference.parameter);
                let called = self.world.call(&self.attacker, name, Value::Object(arguments)).await;
                let failure = called.err().unwrap_or_else(|| panic!("{shown} was done"));
                assert!(expected(&reference, failure.code()), "{shown}: {failure:?}");
                tried += 1;
            }
            assert_eq!(self.snapshot().await, before, "{} changed something", reference.entry.about.name);
        }
        tried
    }

    /// Every way to write a reference to the victim's workspace or to something of it.
    fn spellings(&self) -> Vec<String> {
        let (id, short) = (self.theirs.to_string(), self.theirs.short());
        let mut spellings = vec!["theirs".to_owned(), id.clone(), id.to_uppercase(), short.clone()];
        spellings.push(short[..6].to_owned());
        spellings.push("theirs-only".to_owned());
        for workspace in ["theirs", &id, &short] {
            spellings.extend(["now", "first", "theirs-only"].map(|point| format!("{workspace}:{point}")));
        }
        spellings
    }

    /// What is known of both workspaces, and which machines run.
    async fn snapshot(&self) -> Vec<String> {
        let mut seen = self.world.host.kept();
        for name in ["theirs", "mine"] {
            let info = self.world.ok(&user(), "workspace_info", json!({ "workspace_id": name })).await;
            seen.push(
                json!([
                    info["state"],
                    info["snapshots"],
                    info["port_forwards"],
                    info["env_names"],
                    info["labels"]
                ])
                .to_string(),
            );
            let id = info["workspace_id"].as_str().unwrap().parse().unwrap();
            seen.push(format!("{:?}", self.world.owner(id).await));
        }
        seen
    }
}

/// A running workspace with two snapshots, one of which no other has.
async fn prepare(world: &World, caller: &Caller, name: &str) -> WorkspaceId {
    let id = world.create(caller, name).await;
    for snapshot in ["first".to_owned(), format!("{name}-only")] {
        world.ok(caller, "snapshot_create", json!({ "workspace_id": name, "name": snapshot })).await;
    }
    id
}

#[tokio::test]
async fn no_reference_of_any_action_reaches_what_is_anothers() {
    let scene = Scene::new(World::new().await).await;
    let tried = scene
        .attack(|_, code| matches!(code, Code::NotOwner | Code::WorkspaceNotFound | Code::SnapshotNotFound))
        .await;
    assert!(tried > 500, "only {tried} references were tried");
}

#[tokio::test]
async fn a_strict_installation_does_not_even_say_that_there_is_something() {
    let scene = Scene::new(World::strict().await).await;
    let tried =
        scene.attack(|_, code| matches!(code, Code::WorkspaceNotFound | Code::SnapshotNotFound)).await;
    assert!(tried > 500, "only {tried} references were tried");
}

#[tokio::test]
async fn a_refusal_reads_the_same_for_what_is_hidden_and_for_what_does_not_exist() {
    let scene = Scene::new(World::strict().await).await;
    for reference in references() {
        let schema = (reference.entry.schema)();
        let message = async |spelling: &str| {
            let mut arguments = ordinary(&schema, "mine");
            arguments.insert(reference.parameter.clone(), json!(spelling));
            let called =
                scene.world.call(&scene.attacker, reference.entry.about.name, Value::Object(arguments));
            let failure = called.await.unwrap_err();
            format!("{} {:?}", failure.message().replace(spelling, "X"), failure.remedy())
        };
        assert_eq!(message("theirs").await, message("nobodys").await, "{}", reference.entry.about.name);
    }
}

#[tokio::test]
async fn every_workspace_or_snapshot_that_an_action_takes_is_one_of_its_subjects() {
    let found = references();
    for entry in ALL {
        let schema = (entry.schema)();
        for parameter in ["workspace_id", "snapshot_name"] {
            if schema["properties"].get(parameter).is_none() {
                continue;
            }
            let listed = found
                .iter()
                .any(|one| one.entry.about.name == entry.about.name && one.parameter == parameter);
            assert!(listed, "{} takes {parameter} and does not name it as a subject", entry.about.name);
        }
    }
}

#[tokio::test]
async fn the_user_may_use_every_workspace_and_owns_none() {
    let scene = Scene::new(World::strict().await).await;
    for entry in ALL.iter().filter(|entry| entry.about.effect == agentiso_core::action::Effect::Reads) {
        let schema = (entry.schema)();
        let arguments = Value::Object(ordinary(&schema, "theirs"));
        if let Err(failure) = scene.world.call(&user(), entry.about.name, arguments).await {
            let refused = matches!(failure.code(), Code::NotOwner | Code::WorkspaceNotFound);
            assert!(!refused, "{}: {failure:?}", entry.about.name);
        }
    }
    assert_eq!(scene.world.owner(scene.theirs).await, scene.victim.session);
}

#[tokio::test]
async fn a_session_adopts_an_unowned_workspace_by_using_it() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let id = world.create(&user(), "orphan").await;
    assert_eq!(world.owner(id).await, None);
    world.sh(&session, "orphan", "echo hello").await;
    assert_eq!(world.owner(id).await, session.session);
    let other = world.session("other").await;
    world
        .refused(&other, "exec", json!({ "workspace_id": "orphan", "command": "true" }), Code::NotOwner)
        .await;
}

#[tokio::test]
async fn a_strict_installation_lets_nobody_adopt() {
    let world = World::strict().await;
    let session = world.session("agent").await;
    let id = world.create(&user(), "orphan").await;
    let exec = json!({ "workspace_id": "orphan", "command": "true" });
    world.refused(&session, "exec", exec, Code::WorkspaceNotFound).await;
    let adopt = json!({ "workspace_id": "orphan", "force": true });
    world.refused(&session, "workspace_adopt", adopt, Code::WorkspaceNotFound).await;
    let all = world.ok(&session, "workspace_adopt", json!({})).await;
    assert_eq!(all["adopted_count"], 0);
    assert_eq!(world.owner(id).await, None);
    let listed = world.ok(&session, "workspace_list", json!({})).await;
    assert_eq!(listed["count"], 0);
}

#[tokio::test]
async fn nothing_is_adopted_unless_everything_is_allowed() {
    let world = World::new().await;
    let (attacker, victim) = (world.session("attacker").await, world.session("victim").await);
    world.create(&attacker, "mine").await;
    prepare(&world, &victim, "theirs").await;
    let orphan = prepare(&world, &user(), "orphan").await;
    for (snapshot_name, other) in
        [("orphan:now", "theirs:first"), ("theirs:first", "orphan:now"), ("theirs:now", "orphan:first")]
    {
        let arguments = json!({ "workspace_id": "mine", "snapshot_name": snapshot_name, "other": other });
        world.refused(&attacker, "snapshot_diff", arguments, Code::NotOwner).await;
        assert_eq!(world.owner(orphan).await, None, "{snapshot_name} {other}");
    }
    let arguments = json!({ "workspace_id": "orphan", "snapshot_name": "first", "other": "theirs:now" });
    world.refused(&attacker, "snapshot_diff", arguments, Code::NotOwner).await;
    assert_eq!(world.owner(orphan).await, None);
}

#[tokio::test]
async fn destroying_an_unowned_workspace_needs_no_quota() {
    let world = World::with(|settings| settings.session_quota.workspaces = 0).await;
    let session = world.session("agent").await;
    world.create(&user(), "orphan").await;
    let exec = json!({ "workspace_id": "orphan", "command": "true" });
    world.refused(&session, "exec", exec, Code::QuotaExceeded).await;
    world.ok(&session, "workspace_destroy", json!({ "workspace_id": "orphan" })).await;
    assert!(world.names().await.is_empty());
}

#[tokio::test]
async fn a_workspace_and_its_forks_belong_to_their_maker_from_the_first_instant() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let id = world.create(&session, "mine").await;
    assert_eq!(world.owner(id).await, session.session);
    let forked = world.ok(&session, "workspace_fork", json!({ "workspace_id": "mine", "count": 3 })).await;
    for worker in forked["workers"].as_array().unwrap() {
        let id = worker["workspace_id"].as_str().unwrap().parse().unwrap();
        assert_eq!(world.owner(id).await, session.session);
    }
    assert_eq!(forked["success_count"], 3);
}

#[tokio::test]
async fn a_list_says_what_is_whose() {
    let world = World::new().await;
    let (one, other) = (world.session("one").await, world.session("other").await);
    world.create(&one, "ones").await;
    world.create(&other, "others").await;
    let owned = async |arguments: Value| -> Vec<(String, bool)> {
        let listed = world.ok(&one, "workspace_list", arguments).await;
        let entry = |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["owned"].as_bool().unwrap());
        listed["workspaces"].as_array().unwrap().iter().map(entry).collect()
    };
    assert_eq!(owned(json!({})).await, [("ones".to_owned(), true), ("others".to_owned(), false)]);
    assert_eq!(owned(json!({ "owned": true })).await, [("ones".to_owned(), true)]);
}
