//! What is kept of a call in the timeline: secrets are left out by their type ([`agentiso_core::Secret`]), and
//! credentials in commands and other texts by their form.

use agentiso_core::action::Action;
use agentiso_core::ports::records::MAX_DETAIL;
use agentiso_core::summary_of;
use serde_json::{Map, Value, json};

use crate::output::cut;
use crate::secrets::{is_secret_variable, without_credentials, without_values};

/// The longest text that is remembered of one parameter.
const LONGEST: usize = 500;
/// How much of a parameter is looked at.
const LOOKED_AT: usize = 8 * 1024;

/// What may be kept of an action: no secret, and no credential in its other parameters.
pub(crate) fn redacted<A: Action>(action: &A) -> Value {
    let (kept, variables) = summary_of(action);
    without_secrets(kept, &variables)
}

/// Apart, so that it is compiled once and not for every action.
fn without_secrets(kept: Value, variables: &[(String, String)]) -> Value {
    let mut detail = match kept {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    detail.remove("workspace_id");
    let secrets = variables.iter().filter(|(name, value)| is_secret_variable(name, value));
    let values: Vec<String> = secrets.map(|(_, value)| value.clone()).collect();
    let detail = harmless(&Value::Object(detail), &values);
    if detail.to_string().len() > MAX_DETAIL { json!({ "cut": true }) } else { detail }
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
        let write = FileWrite { content: "geheim".into(), path: "/a".to_owned(), ..FileWrite::default() };
        let kept = redacted(&write);
        assert_eq!(kept, json!({ "path": "/a", "content": { "bytes": 6 } }));
        let vars = BTreeMap::from([("KEY".to_owned(), Some("geheim".to_owned()))]);
        assert_eq!(
            redacted(&SetEnv { workspace_id: "w".to_owned(), vars: vars.into() }),
            json!({ "vars": ["KEY"] })
        );
        let env = BTreeMap::from([("KEY".to_owned(), "geheim".to_owned())]);
        let exec = Exec {
            command: "ls".to_owned(),
            env: env.into(),
            stdin: Some("geheim".into()),
            ..Exec::default()
        };
        assert!(!redacted(&exec).to_string().contains("geheim"));
    }

    #[test]
    fn a_value_that_is_given_as_a_variable_is_not_remembered_from_the_command_either() {
        let env = BTreeMap::from([("API_TOKEN".to_owned(), "plainword".to_owned())]);
        let exec = Exec { command: "login plainword".to_owned(), env: env.into(), ..Exec::default() };
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
