//! What must not be remembered: contents, values and credentials.

use agentiso_core::action::Action;
use agentiso_core::ports::records::MAX_DETAIL;
use serde_json::{Map, Value, json};

use crate::output::cut;
use crate::secrets::{is_secret_variable, without_credentials, without_values};

/// Parameters whose values are contents.
const CONTENTS: [&str; 7] =
    ["content", "old_string", "new_string", "edits", "stdin", "data", "idempotency_key"];
/// Parameters whose values are values of variables.
const VARIABLES: [&str; 2] = ["env", "vars"];
/// The longest text that is remembered of one parameter.
const LONGEST: usize = 500;
/// How much of a parameter is looked at.
const LOOKED_AT: usize = 8 * 1024;

/// What may be remembered of an action.
pub(crate) fn redacted<A: Action>(action: &A) -> Value {
    match serde_json::to_value(action) {
        Ok(Value::Object(fields)) => redacted_fields(fields),
        _ => redacted_fields(Map::new()),
    }
}

/// Apart, so that it is compiled once and not for every action.
fn redacted_fields(mut kept: Map<String, Value>) -> Value {
    kept.remove("workspace_id");
    let values: Vec<String> =
        VARIABLES.iter().filter_map(|field| kept.get(*field)).flat_map(secrets_in).collect();
    for (name, value) in &mut kept {
        *value = if CONTENTS.contains(&name.as_str()) {
            size(value)
        } else if VARIABLES.contains(&name.as_str()) {
            value.as_object().map(|vars| json!(vars.keys().collect::<Vec<_>>())).unwrap_or_default()
        } else {
            harmless(value, &values)
        };
    }
    let detail = Value::Object(kept);
    if detail.to_string().len() > MAX_DETAIL { json!({ "cut": true }) } else { detail }
}

fn size(value: &Value) -> Value {
    match value {
        Value::String(text) => json!({ "bytes": text.len() }),
        Value::Array(items) => json!({ "items": items.len() }),
        _ => Value::Null,
    }
}

/// The values of variables that are secrets.
fn secrets_in(variables: &Value) -> Vec<String> {
    let variables = variables.as_object().into_iter().flatten();
    let texts = variables.filter_map(|(name, value)| Some((name, value.as_str()?)));
    texts.filter(|(name, value)| is_secret_variable(name, value)).map(|(_, value)| value.to_owned()).collect()
}

fn harmless(value: &Value, values: &[String]) -> Value {
    in_every_text(value, &|text| {
        let known = without_values(cut(text, LOOKED_AT), values.iter().map(String::as_str));
        cut(&without_credentials(&known), LONGEST).to_owned()
    })
}

/// What was remembered of a call so far, without the values of its workspace's variables.
pub(crate) fn without_known(detail: &Value, values: &[&str]) -> Value {
    in_every_text(detail, &|text| without_values(text, values.iter().copied()))
}

fn in_every_text(value: &Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(items) => Value::Array(items.iter().map(|item| in_every_text(item, change)).collect()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), in_every_text(value, change)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use agentiso_core::action::{Exec, FileWrite, SetEnv};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn contents_and_values_are_not_remembered() {
        let write = FileWrite { content: "geheim".to_owned(), path: "/a".to_owned(), ..FileWrite::default() };
        let kept = redacted(&write);
        assert_eq!(kept, json!({ "path": "/a", "content": { "bytes": 6 } }));
        let vars = BTreeMap::from([("KEY".to_owned(), Some("geheim".to_owned()))]);
        assert_eq!(redacted(&SetEnv { workspace_id: "w".to_owned(), vars }), json!({ "vars": ["KEY"] }));
        let env = BTreeMap::from([("KEY".to_owned(), "geheim".to_owned())]);
        let exec =
            Exec { command: "ls".to_owned(), env, stdin: Some("geheim".to_owned()), ..Exec::default() };
        assert!(!redacted(&exec).to_string().contains("geheim"));
    }

    #[test]
    fn a_value_that_is_given_as_a_variable_is_not_remembered_from_the_command_either() {
        let env = BTreeMap::from([("API_TOKEN".to_owned(), "plainword".to_owned())]);
        let exec = Exec { command: "login plainword".to_owned(), env, ..Exec::default() };
        assert_eq!(redacted(&exec)["command"], "login [redacted]");
        let known = without_known(&json!({"command": "a plainword", "argv": ["plainword"]}), &["plainword"]);
        assert_eq!(known, json!({"command": "a [redacted]", "argv": ["[redacted]"]}));
    }

    proptest! {
        #[test]
        fn whatever_is_asked_what_is_remembered_is_short(part in ".{0,200}", times in 0..200_usize) {
            let command = part.repeat(times);
            let exec = Exec { command, ..Exec::default() };
            prop_assert!(redacted(&exec).to_string().len() <= MAX_DETAIL);
        }
    }
}
