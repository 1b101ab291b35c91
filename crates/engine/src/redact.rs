//! What must not be remembered: contents, values and credentials.

use std::sync::LazyLock;

use agentiso_core::action::Action;
use agentiso_meta::MAX_DETAIL;
use regex::Regex;
use serde_json::{Map, Value, json};

use crate::output::cut;

/// Parameters whose values are contents.
const CONTENTS: [&str; 7] =
    ["content", "old_string", "new_string", "edits", "stdin", "data", "idempotency_key"];
/// Parameters whose values are values of variables.
const VARIABLES: [&str; 2] = ["env", "vars"];
/// The longest text that is remembered of one parameter.
const LONGEST: usize = 500;

/// What stands where a credential stood.
pub(crate) const MARK: &str = "[redacted]";

static CREDENTIALS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    let patterns = [
        // user:password@ and token@ in addresses.
        (r"(?i)\b([a-z][a-z0-9+.-]*://)[^/\s@'\x22]+@", "${1}[redacted]@"),
        // Tokens that say what they are.
        (
            r"\b(gh[pousr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|AKIA[0-9A-Z]{16}|ATBB[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
            MARK,
        ),
        // Headers.
        (
            r"(?i)\b(authorization\s*:\s*|bearer\s+|basic\s+)[A-Za-z0-9+/=._~-]{6,}(\s+[A-Za-z0-9+/=._~-]{6,})?",
            "${1}[redacted]",
        ),
        // NAME=value and --name value where the name says that it is secret.
        (
            r#"(?i)\b([A-Z0-9_-]*(?:passwd|password|secret|token|api[_-]?key|private[_-]?key|credential)[A-Z0-9_-]*\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s'"&;|]+)"#,
            "${1}[redacted]",
        ),
        (
            r#"(?i)(--(?:password|passwd|token|secret|api-key)\s+)("[^"]*"|'[^']*'|[^\s'"&;|]+)"#,
            "${1}[redacted]",
        ),
    ];
    patterns.iter().filter_map(|(pattern, with)| Some((Regex::new(pattern).ok()?, *with))).collect()
});

/// A text without credentials.
pub(crate) fn without_credentials(text: &str) -> String {
    CREDENTIALS.iter().fold(text.to_owned(), |text, (pattern, with)| {
        match pattern.replace_all(&text, *with) {
            std::borrow::Cow::Borrowed(_) => text,
            std::borrow::Cow::Owned(changed) => changed,
        }
    })
}

/// What may be remembered of an action.
pub(crate) fn redacted<A: Action>(action: &A) -> Value {
    let mut kept = match serde_json::to_value(action) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    kept.remove("workspace_id");
    for (name, value) in &mut kept {
        *value = if CONTENTS.contains(&name.as_str()) {
            size(value)
        } else if VARIABLES.contains(&name.as_str()) {
            value.as_object().map(|vars| json!(vars.keys().collect::<Vec<_>>())).unwrap_or_default()
        } else {
            harmless(value)
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

fn harmless(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(&without_credentials(text), LONGEST).to_owned()),
        Value::Array(items) => Value::Array(items.iter().map(harmless).collect()),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, value)| (name.clone(), harmless(value))).collect())
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
    fn every_pattern_is_one() {
        assert_eq!(CREDENTIALS.len(), 5);
    }

    #[test]
    fn credentials_of_all_kinds_are_taken_out_and_the_rest_stays() {
        let token = "abcdefghijklmnop1234567890ABCDEF";
        for secret in [
            format!("git clone https://user:{token}@example.com/r.git"),
            format!("git clone https://{token}@example.com/r.git"),
            format!("echo ghp_{token}"),
            format!("echo glpat-{token}"),
            format!("echo ATBB{token}"),
            format!("curl -H 'Authorization: Bearer {token}' x"),
            format!("curl -H 'authorization: basic {token}' x"),
            format!("export API_KEY={token}; run"),
            format!("MY_SECRET_TOKEN='{token}' run"),
            format!("tool --password {token}"),
        ] {
            let clean = without_credentials(&secret);
            assert!(!clean.contains(token), "{clean}");
            assert!(clean.contains(MARK), "{clean}");
        }
        for harmless in ["ls -l /etc", "https://example.com/a@b", "make token", "echo $PATH"] {
            assert_eq!(without_credentials(harmless), harmless);
        }
    }

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

    proptest! {
        #[test]
        fn whatever_is_asked_what_is_remembered_is_short(part in ".{0,200}", times in 0..200_usize) {
            let command = part.repeat(times);
            let exec = Exec { command, ..Exec::default() };
            prop_assert!(redacted(&exec).to_string().len() <= MAX_DETAIL);
        }
    }
}
