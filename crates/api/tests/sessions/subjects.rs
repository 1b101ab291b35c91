//! No action gives a session what belongs to another one, whatever its parameters say.
//!
//! The table of actions is the catalogue itself: a new action is tried without anyone adding it here, and a new
//! parameter that is text has to be said to be a reference or not before the test passes.

use agentiso_api::catalogue;
use agentiso_core::Code;
use agentiso_engine::Caller;
use agentiso_meta::Workspace;
use serde_json::{Map, Value, json};

use crate::house::{House, SNAPSHOT};

/// Parameters that refer to something that has an owner.
const REFERENCES: &[&str] = &["workspace_id", "snapshot_name", "other"];

/// Parameters that are text and refer to nothing that has an owner: names to give, and what is looked at in a guest.
const PLAIN: &[&str] = &[
    "allowed_ports",
    "author_email",
    "author_name",
    "base_image",
    "branch",
    "command",
    "content",
    "data",
    "description",
    "direction",
    "edits",
    "encoding",
    "env",
    "file",
    "file_path",
    "glob",
    "guest_path",
    "host_path",
    "idempotency_key",
    "kind",
    "labels",
    "log_type",
    "message",
    "mode",
    "name",
    "name_prefix",
    "new_name",
    "new_path",
    "new_string",
    "old_string",
    "path",
    "paths",
    "pattern",
    "recipe",
    "reference",
    "remote",
    "session_id",
    "state_filter",
    "stdin",
    "url",
    "user",
    "vars",
    "wait",
    "workdir",
];

/// Nothing that an attacker is told may contain this.
const SECRET: &str = "only-the-victim-knows";

/// Every way to write a reference to something of a workspace.
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

/// How a text is given to a parameter; nothing if it takes none.
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

/// Arguments an action takes, about the workspace `mine`.
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

/// The attacker may do to its own workspace what it likes; the next action finds it as it was.
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
async fn every_parameter_of_every_action_leaves_what_is_anothers_alone() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker"), house.session("victim"));
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
                    "{action}: say whether {parameter:?} refers to something that has an owner"
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
                        assert!(!told.contains(SECRET), "{shown} told a secret: {told}");
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
async fn a_comparison_that_reaches_into_another_workspace_is_refused_and_adopts_nothing() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker"), house.session("victim"));
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
    assert_eq!(house.owner(orphan.id), None, "nothing is adopted unless all is allowed");
}

#[tokio::test]
async fn a_workspace_cannot_be_named_like_another_ones_id() {
    let house = House::new().await;
    let (attacker, victim) = (house.session("attacker"), house.session("victim"));
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
    // What it is all about: the victim's id means the victim, for the operator too.
    let operator = Caller::operator("test");
    let found = house.call(&operator, "workspace_ip", json!({ "workspace_id": theirs.id.to_string() })).await;
    assert_eq!(found.unwrap().structured["workspace_id"], json!(theirs.id));
}
