//! No action gives a session access to what belongs to another one, whatever its parameters are.
//!
//! The actions come from the catalogue: a new action is tested without being added here, and a new text parameter must
//! be classified as a reference or not before the test passes.

use agentiso_api::catalogue;
use agentiso_core::Code;
use agentiso_engine::Caller;
use agentiso_meta::Workspace;
use serde_json::{Map, Value, json};

use crate::house::{House, SNAPSHOT};

/// Parameters that refer to something with an owner.
const REFERENCES: &[&str] = &["workspace_id", "snapshot_name", "other", "to"];

/// Text parameters that refer to nothing with an owner: new names, and paths or text inside a guest.
const PLAIN: &[&str] = &[
    "allow_cidrs",
    "allow_domains",
    "allowed_ports",
    "ask",
    "author_email",
    "author_name",
    "base_image",
    "branch",
    "command",
    "content",
    "data",
    "deny_cidrs",
    "deny_domains",
    "description",
    "direction",
    "edits",
    "egress",
    "encoding",
    "env",
    "file",
    "file_path",
    "glob",
    "groups",
    "guest_path",
    "headers",
    "host_path",
    "hosts",
    "http_rules",
    "idempotency_key",
    "kind",
    "labels",
    "log_type",
    "message",
    "mode",
    "name",
    "name_prefix",
    "network",
    "new_name",
    "new_path",
    "new_string",
    "old_string",
    "path",
    "paths",
    "pattern",
    "preset",
    "recipe",
    "reference",
    "remote",
    "request_id",
    "scope",
    "secrets",
    "session_id",
    "state_filter",
    "stdin",
    "url",
    "user",
    "value",
    "vars",
    "wait",
    "workdir",
];

/// An attacker must never see this.
const SECRET: &str = "only-the-victim-knows";

/// All ways to refer to an object of a workspace.
fn spellings(victim: &Workspace, snapshot_id: &str) -> Vec<String> {
    let (id, short) = (victim.id.to_string(), victim.id.short());
    let mut spellings = vec![
        victim.name.to_string(),
        id.clone(),
        id.to_uppercase(),
        victim.id.machine_id(),
        format!("{{{id}}}"),
        format!("urn:uuid:{id}"),
        short.clone(),
        short[..6].to_owned(),
        format!("{}-only", victim.name),
        snapshot_id.to_owned(),
    ];
    for workspace in [victim.name.as_str(), &id, &short] {
        for point in ["now".to_owned(), SNAPSHOT.to_owned(), format!("{}-only", victim.name)] {
            spellings.push(format!("{workspace}:{point}"));
        }
    }
    spellings
}

/// A text as the value of a parameter; `None` if the parameter takes no text.
fn given(schema: &Value, text: &str) -> Option<Value> {
    let is = |schema: &Value, kind: &str| match &schema["type"] {
        Value::String(one) => one == kind,
        Value::Array(many) => many.iter().any(|one| one == kind),
        _ => false,
    };
    if is(schema, "string") {
        Some(json!(text))
    } else if is(schema, "array") && is(&schema["items"], "string") {
        Some(json!([text]))
    } else if is(schema, "object") && is(&schema["additionalProperties"], "string") {
        Some(json!({ "k": text }))
    } else {
        schema["anyOf"].as_array().into_iter().flatten().find_map(|one| given(one, text))
    }
}

/// Valid arguments of an action, for the workspace `mine`.
fn ordinary(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| match name {
        "workspace_id" => json!("mine"),
        "snapshot_name" => json!(SNAPSHOT),
        "direction" => json!("upload"),
        "path" | "file_path" | "guest_path" | "new_path" | "host_path" => json!("/tmp/file"),
        name => match schema["properties"][name]["type"].as_str() {
            Some("integer") => json!(1),
            Some("object") => json!({}),
            Some("array") => json!([]),
            Some("boolean") => json!(false),
            _ => json!("text"),
        },
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}

/// Restores the attacker's own workspace, so that the next action finds it unchanged.
fn keep_mine(house: &House, attacker: &Caller) {
    let owner = attacker.session.unwrap();
    let mine = house.meta.read(|read| {
        let owned = read.owned_by(owner)?.into_iter();
        owned
            .map(|one| Ok((one.id, one.name.to_string(), read.snapshots(one.id)?.len())))
            .collect::<Result<Vec<_>, _>>()
    });
    let mine = mine.unwrap();
    if matches!(mine.as_slice(), [(_, name, 2)] if name == "mine") {
        return;
    }
    for (id, ..) in mine {
        house.meta.write(|tx| tx.remove_workspace(id)).unwrap();
    }
    house.workspace("mine", Some(owner));
}

#[tokio::test]
async fn no_parameter_of_any_action_reaches_the_objects_of_another_session() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker").await, house.session("victim").await);
    house.workspace("mine", attacker.session);
    let theirs = house.workspace("victim", victim.session);
    house.label(theirs.id, "note", SECRET);
    let snapshot = house.meta.read(|read| read.find_snapshot(theirs.id, SNAPSHOT)).unwrap().id.to_string();
    let before = house.stored(theirs.id);

    let mut tried = 0;
    for entry in catalogue::ALL {
        let action = entry.about.name;
        let schema = entry.input_schema();
        for (parameter, about) in schema["properties"].as_object().into_iter().flatten() {
            for spelling in spellings(&theirs, &snapshot) {
                let Some(value) = given(about, &spelling) else { continue };
                let is_reference = REFERENCES.contains(&parameter.as_str());
                assert!(
                    is_reference || PLAIN.contains(&parameter.as_str()),
                    "{action}: classify {parameter:?}: does it refer to something with an owner?"
                );
                keep_mine(&house, &attacker);
                let mut arguments = ordinary(schema);
                arguments.insert(parameter.clone(), value);
                let called = house.call(&attacker, action, Value::Object(arguments)).await;
                let shown = format!("{action} with {parameter} {spelling:?}");
                match &called {
                    Ok(answer) => {
                        assert!(!is_reference, "{shown} was done: {answer:?}");
                        let told = format!("{} {}", answer.structured, answer.text);
                        assert!(!told.contains(SECRET), "{shown} revealed a secret: {told}");
                    }
                    Err(failure) if is_reference => assert!(
                        matches!(
                            failure.code(),
                            Code::NotOwner | Code::WorkspaceNotFound | Code::SnapshotNotFound
                        ),
                        "{shown}: {failure:?}"
                    ),
                    Err(failure) => assert!(!format!("{failure:?}").contains(SECRET), "{shown}: {failure:?}"),
                }
                assert_eq!(house.stored(theirs.id), before, "{shown} changed it");
                tried += is_reference as usize;
            }
        }
    }
    assert!(tried > 500, "only {tried} references were tried");
}

#[tokio::test]
async fn a_comparison_with_a_foreign_workspace_is_rejected_and_adopts_nothing() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker").await, house.session("victim").await);
    house.workspace("mine", attacker.session);
    house.workspace("victim", victim.session);
    let orphan = house.workspace("orphan", None);
    for (snapshot_name, other) in [
        ("victim:now", "now"),
        (SNAPSHOT, "victim:now"),
        ("orphan:now", "victim:first"),
        ("victim:first", "orphan:now"),
    ] {
        let arguments = json!({ "workspace_id": "mine", "snapshot_name": snapshot_name, "other": other });
        let refused = house.call(&attacker, "snapshot_diff", arguments).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotOwner, "{snapshot_name} {other}");
    }
    assert_eq!(house.owner(orphan.id), None, "nothing is adopted unless everything is allowed");
}

#[tokio::test]
async fn a_workspace_cannot_be_named_like_the_id_of_another() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker").await, house.session("victim").await);
    let mine = house.workspace("mine", attacker.session);
    let theirs = house.workspace("victim", victim.session);
    for name in
        [theirs.id.to_string(), theirs.id.machine_id(), theirs.id.short(), theirs.id.short()[..6].to_owned()]
    {
        for (action, arguments) in [
            ("workspace_create", json!({ "name": name })),
            ("workspace_rename", json!({ "workspace_id": "mine", "new_name": name })),
            ("workspace_fork", json!({ "workspace_id": "mine", "new_name": name })),
            ("workspace_fork", json!({ "workspace_id": "mine", "name_prefix": name, "count": 2 })),
        ] {
            let refused = house.call(&attacker, action, arguments).await.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument, "{action} {name}: {refused:?}");
        }
    }
    assert_eq!(house.stored(mine.id).workspace_name(), "mine");
    // The victim's id must always mean the victim, for the operator too.
    let operator = Caller::operator("test");
    let found = house.call(&operator, "workspace_ip", json!({ "workspace_id": theirs.id.to_string() })).await;
    assert_eq!(found.unwrap().structured["workspace_id"], json!(theirs.id));
}
