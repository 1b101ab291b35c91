//! No secret of any action is kept, logged or repeated in an error. Which parameters are secrets is taken from the
//! schemas, which take it from the types.

use std::fmt::Debug;

use agentiso_api::catalogue::{self, Entry};
use agentiso_core::action::{self, Action};
use agentiso_core::for_each_action;
use agentiso_engine::Caller;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

use crate::forms::values;
use crate::house::House;

/// A value that occurs nowhere by chance.
const CANARY: &str = "q7Xhush9Zk2Hush4";
/// Values for every action.
const CASES: u32 = 12;

/// The parameters of an action that are secrets.
fn secrets(entry: &Entry) -> Vec<&'static str> {
    let properties = entry.input_schema()["properties"].as_object().into_iter().flatten();
    properties.filter(|(_, property)| property["writeOnly"] == true).map(|(name, _)| name.as_str()).collect()
}

/// A secret instead of every text.
fn filled(value: &mut Value) {
    match value {
        Value::String(text) => CANARY.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(filled),
        Value::Object(fields) => fields.values_mut().for_each(filled),
        _ => {}
    }
}

/// Arguments that the schema allows, with all secrets there are.
fn arguments(entry: &Entry, secrets: &[&str], runner: &mut TestRunner) -> Map<String, Value> {
    let Value::Object(mut arguments) = values::of(entry.input_schema()).new_tree(runner).unwrap().current()
    else {
        panic!("arguments are an object")
    };
    arguments.remove("encoding");
    for name in secrets {
        let property = &entry.input_schema()["properties"][name];
        let mut value = arguments.remove(*name).unwrap_or_default();
        filled(&mut value);
        if !value.to_string().contains(CANARY) {
            value = match property["type"].as_str() {
                Some("object") => json!({ "NAME": CANARY }),
                Some("array") => json!([{ "old_string": CANARY, "new_string": CANARY }]),
                _ => json!(CANARY),
            };
        }
        arguments.insert((*name).to_owned(), value);
    }
    arguments
}

/// How an action prints itself.
fn printed(entry: &Entry, arguments: &Map<String, Value>) -> String {
    fn print<A: Action + Debug>(arguments: &Map<String, Value>) -> String {
        let read: A = serde_json::from_value(Value::Object(arguments.clone())).unwrap();
        format!("{read:?} {read:#?}")
    }
    macro_rules! of_its_type {
        ($($action:ident),* $(,)?) => {
            match entry.about.name {
                $(name if name == action::$action::ABOUT.name => print::<action::$action>(arguments),)*
                other => panic!("there is no action {other}"),
            }
        };
    }
    for_each_action!(of_its_type)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_any_action_is_kept_printed_or_repeated_in_an_error() {
    let house = House::configured("[vm]\nstart_on_use = false").await;
    let agent = house.session("agent").await;
    let operator = Caller::operator("test");
    let mut runner = TestRunner::new(Config::default());
    let mut checked = 0;
    for entry in catalogue::ALL {
        let secrets = secrets(entry);
        for case in 0..if secrets.is_empty() { 0 } else { CASES } {
            let name = format!("ws-{}-{case}", entry.about.name.replace('_', "-"));
            let id = house.workspace(&name, agent.session).id;
            let mut arguments = arguments(entry, &secrets, &mut runner);
            if arguments.contains_key("workspace_id") {
                arguments.insert("workspace_id".to_owned(), json!(name));
            }
            assert!(json!(arguments).to_string().contains(CANARY));
            assert!(!printed(entry, &arguments).contains(CANARY), "{} prints a secret", entry.about.name);
            // Once as it should be, and once with secrets where they do not belong.
            let mut misplaced = arguments.clone();
            for secret in &secrets {
                misplaced.insert((*secret).to_owned(), json!([[CANARY, 7]]));
            }
            for arguments in [arguments, misplaced] {
                if let Err(failure) = house.call(&agent, entry.about.name, json!(arguments)).await {
                    let said = format!("{failure:?} {failure}");
                    assert!(!said.contains(CANARY), "{}: {said}", entry.about.name);
                }
            }
            checked += 1;
            if house.exists(id) {
                house
                    .call(&agent, "workspace_destroy", json!({ "workspace_id": id.to_string() }))
                    .await
                    .unwrap();
            }
        }
    }
    assert!(checked >= CASES * 7, "{checked}");
    let kept = house.call(&operator, "timeline", json!({ "limit": 1000 })).await.unwrap().structured;
    assert!(kept["events"].as_array().unwrap().len() as u32 >= checked);
    assert!(!kept.to_string().contains(CANARY), "{kept:#}");
}

#[test]
fn contents_input_and_variables_are_secrets() {
    let all: Vec<String> = catalogue::ALL
        .iter()
        .flat_map(|entry| secrets(entry).into_iter().map(|name| format!("{}.{name}", entry.about.name)))
        .collect();
    assert_eq!(
        all,
        [
            "workspace_create.idempotency_key",
            "workspace_fork.idempotency_key",
            "exec.env",
            "exec.stdin",
            "exec_start.env",
            "exec_write.data",
            "set_env.vars",
            "file_write.content",
            "file_edit.edits",
            "file_edit.new_string",
            "file_edit.old_string",
            "secret_set.value",
        ]
    );
}
