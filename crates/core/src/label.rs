//! Labels: names and values that users attach to workspaces.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::{Code, Explain};

/// The maximum number of labels of a workspace.
pub const MAX_LABELS: usize = 32;

/// The longest key, in characters.
const MAX_KEY: usize = 63;

/// The longest value, in characters.
const MAX_VALUE: usize = 256;

/// Why labels were refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LabelError {
    /// There are too many of them.
    #[error("{found} labels are too many")]
    TooMany {
        /// How many there are.
        found: usize,
    },
    /// A key is not valid.
    #[error("{key:?} is not a valid label: {reason}")]
    Key {
        /// The key, or its beginning.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A value is not valid.
    #[error("the value of the label {key:?} is not valid: {reason}")]
    Value {
        /// The key of the value.
        key: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl Explain for LabelError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::TooMany { .. } => format!("give at most {MAX_LABELS}"),
            Self::Key { .. } => format!(
                "use at most {MAX_KEY} of a-z, 0-9, '.', '_', '/' and '-', starting with a letter or digit"
            ),
            Self::Value { .. } => format!("use at most {MAX_VALUE} characters, all of them printable"),
        })
    }
}

/// The form of a set of labels in a schema, as [`check_labels`] accepts it.
#[derive(Clone, Copy, Debug)]
pub struct Labels;

/// The form of a change of labels in a schema: null removes a label.
#[derive(Clone, Copy, Debug)]
pub struct LabelChanges;

fn labels_schema(value_type: Value) -> Schema {
    json_schema!({
        "type": "object",
        "propertyNames": { "pattern": "^[a-z0-9][a-z0-9._/-]*$", "maxLength": MAX_KEY },
        "additionalProperties": {
            "type": value_type, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$", "maxLength": MAX_VALUE,
        },
        "maxProperties": MAX_LABELS,
        "examples": [{"team": "web"}],
    })
}

impl JsonSchema for Labels {
    fn schema_name() -> Cow<'static, str> {
        "Labels".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        labels_schema(json!("string"))
    }
}

impl JsonSchema for LabelChanges {
    fn schema_name() -> Cow<'static, str> {
        "LabelChanges".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        labels_schema(json!(["string", "null"]))
    }
}

/// Refuses labels that are too many, too long, or awkward to print or to type.
pub fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), LabelError> {
    if labels.len() > MAX_LABELS {
        return Err(LabelError::TooMany { found: labels.len() });
    }
    labels.iter().try_for_each(|(key, value)| check_key(key).and_then(|()| check_value(key, value)))
}

fn check_key(key: &str) -> Result<(), LabelError> {
    let refuse = |reason| Err(LabelError::Key { key: key.chars().take(MAX_KEY).collect(), reason });
    let Some(first) = key.chars().next() else {
        return refuse("it is empty");
    };
    if key.len() > MAX_KEY {
        return refuse("it is too long");
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !is_plain(first) {
        return refuse("it must start with a lowercase letter or digit");
    }
    if !key.chars().all(|c| is_plain(c) || matches!(c, '.' | '_' | '/' | '-')) {
        return refuse("it contains a character that is not allowed");
    }
    Ok(())
}

fn check_value(key: &str, value: &str) -> Result<(), LabelError> {
    let refuse = |reason| Err(LabelError::Value { key: key.to_owned(), reason });
    if value.chars().nth(MAX_VALUE).is_some() {
        return refuse("it is too long");
    }
    if value.chars().any(char::is_control) {
        return refuse("it contains a control character");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(key: &str, value: &str) -> Result<(), LabelError> {
        check_labels(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
    }

    #[test]
    fn ordinary_labels_pass_and_awkward_ones_do_not() {
        for good in ["a", "0", "team", "ci/run-1", "example.com/a_b", &"x".repeat(63)] {
            assert_eq!(check(good, "value"), Ok(()), "{good}");
        }
        for bad in ["", "-a", ".a", "/a", "_a", "Team", "a b", "a=b", "a\0", "ü", &"x".repeat(64)] {
            assert!(matches!(check(bad, "value"), Err(LabelError::Key { .. })), "{bad:?}");
        }
        for good in ["", "Some words, 10 %", &"ü".repeat(256)] {
            assert_eq!(check("key", good), Ok(()), "{good}");
        }
        for bad in ["a\nb", "\x1b[31m", "\0", "\u{85}", &"x".repeat(257)] {
            assert!(matches!(check("key", bad), Err(LabelError::Value { .. })), "{bad:?}");
        }
    }

    #[test]
    fn there_is_an_end_to_how_many_there_are() {
        let labels = |count: usize| (0..count).map(|i| (format!("k{i}"), String::new())).collect();
        assert_eq!(check_labels(&labels(MAX_LABELS)), Ok(()));
        let refused = check_labels(&labels(MAX_LABELS + 1)).unwrap_err();
        assert_eq!(refused, LabelError::TooMany { found: MAX_LABELS + 1 });
        assert_eq!(
            (refused.code(), refused.remedy().unwrap().as_str()),
            (Code::InvalidArgument, "give at most 32")
        );
    }

    proptest! {
        #[test]
        fn an_accepted_label_needs_no_quoting_of_its_key_and_keeps_to_one_line(key in ".{0,70}", value in ".{0,300}") {
            if check(&key, &value).is_ok() {
                prop_assert!(key.bytes().all(|b| b.is_ascii_graphic() && !b"'\"=, \\".contains(&b)), "{key:?}");
                prop_assert!(!value.contains(['\n', '\r', '\x1b', '\0']), "{value:?}");
            }
        }

        #[test]
        fn what_the_rules_allow_is_accepted(key in "[a-z0-9][a-z0-9._/-]{0,62}", value in "\\PC{0,256}") {
            prop_assert_eq!(check(&key, &value), Ok(()));
        }
    }
}
