//! Errors in the arguments of a call.

use agentiso_core::{Code, Explain, nearest};
use serde_json::{Map, Value};

use crate::catalogue::{Entry, Unreadable};

/// An error in the arguments of a call. It names the parameter and never shows its value, which may be a secret.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Mistake {
    /// The action has no such parameter.
    #[error("`{}` is not a parameter of {of}", shortened(field))]
    Unknown {
        /// The action.
        of: String,
        /// The name that was given.
        field: String,
        /// The parameters of the action.
        known: Vec<String>,
    },
    /// A required parameter is missing.
    #[error("`{field}` is missing")]
    Missing {
        /// The parameter.
        field: String,
        /// Its description.
        about: String,
    },
    /// A parameter has a wrong value.
    #[error("`{}` is wrong: {why}", shortened(place))]
    Wrong {
        /// The parameter.
        field: String,
        /// Path of the wrong value: `edits[0].old_string`.
        place: String,
        /// What was expected instead.
        why: String,
        /// Its description.
        about: String,
    },
}

impl Mistake {
    /// Finds the error in arguments that could not be deserialised.
    pub(crate) fn find(entry: &Entry, arguments: &Map<String, Value>, error: &Unreadable) -> Self {
        let schema = entry.input_schema();
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let about = |field: &str| {
            properties.get(field).and_then(|it| it["description"].as_str()).unwrap_or_default().to_owned()
        };
        if let Some(field) = arguments.keys().find(|field| !properties.contains_key(*field)) {
            let known = properties.keys().cloned().collect();
            return Self::Unknown { of: entry.about.name.to_owned(), field: field.clone(), known };
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(field) = required.into_iter().find(|field| !arguments.contains_key(*field)) {
            return Self::Missing { field: field.to_owned(), about: about(field) };
        }
        let place = error.path().to_string();
        let field = place.split(['.', '[']).next().unwrap_or_default().to_owned();
        let why = match (properties.get(&place), arguments.get(&place)) {
            (Some(schema), Some(given)) => expected(&field, schema, given),
            _ => without_values(&error.inner().to_string()),
        };
        Self::Wrong { about: about(&field), field, place, why }
    }
}

impl Explain for Mistake {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Unknown { field, known, .. } => match nearest(field, known.iter().map(String::as_str)) {
                Some(near) => Some(format!("did you mean `{near}`?")),
                None if known.is_empty() => Some("it takes no parameters".to_owned()),
                None => Some(format!("it takes {}", known.join(", "))),
            },
            Self::Missing { about, .. } | Self::Wrong { about, .. } if about.is_empty() => None,
            Self::Missing { field, about } | Self::Wrong { field, about, .. } => {
                Some(format!("{field}: {about}"))
            }
        }
    }
}

/// The expected type of a parameter with its range and an example, and the type that was given.
fn expected(field: &str, schema: &Value, given: &Value) -> String {
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        kind => kind.as_str(),
    };
    let words = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let words: Vec<String> = words.map(|word| format!("{word:?}")).collect();
    let (wanted, example) = match kind {
        _ if !words.is_empty() => (format!("one of {}", words.join(", ")), words[0].clone()),
        Some("integer") => {
            let least = schema["minimum"].as_i64().unwrap_or(0);
            let most = schema["maximum"].as_i64().or(match schema["format"].as_str() {
                Some("uint8") => Some(255),
                Some("uint16") => Some(65_535),
                Some("uint32") => Some(4_294_967_295),
                _ => None,
            });
            let range = match most {
                Some(most) => format!("a whole number from {least} to {most}"),
                None => format!("a whole number of at least {least}"),
            };
            (range, least.max(1).to_string())
        }
        Some("number") => ("a number".to_owned(), "1".to_owned()),
        Some("boolean") => ("true or false".to_owned(), "true".to_owned()),
        Some("array") => ("an array".to_owned(), "[]".to_owned()),
        Some("object") => ("an object of names and values".to_owned(), "{\"NAME\": \"value\"}".to_owned()),
        _ => ("text".to_owned(), "\"text\"".to_owned()),
    };
    let example =
        EXAMPLES.iter().find(|(name, _)| *name == field).map_or(example, |(_, it)| (*it).to_owned());
    let given = match given {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.is_f64() => "a number that is not whole",
        Value::Number(_) if kind == Some("integer") => "a number outside that range",
        Value::Number(_) => "a number",
        Value::String(_) if words.is_empty() => "text",
        Value::String(_) => "another word",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("expected {wanted}, for example {example}; {given} was given")
}

/// Examples for parameters whose type alone does not show what to give.
const EXAMPLES: [(&str, &str); 12] = [
    ("workspace_id", "\"my-workspace\""),
    ("command", "\"ls -l\""),
    ("timeout_secs", "120"),
    ("path", "\"/workspace/file.txt\""),
    ("workdir", "\"/workspace\""),
    ("env", "{\"DEBUG\": \"1\"}"),
    ("vars", "{\"API_KEY\": \"value\"}"),
    ("labels", "{\"team\": \"web\"}"),
    ("memory_mb", "1024"),
    ("disk_gb", "10"),
    ("guest_port", "8080"),
    ("edits", "[{\"old_string\": \"a\", \"new_string\": \"b\"}]"),
];

/// serde's message without the value it quotes.
fn without_values(said: &str) -> String {
    if let Some(field) = said.strip_prefix("missing field ") {
        return format!("{field} is missing");
    }
    let given = if said.starts_with("unknown field") { "an unknown field" } else { "something else" };
    match said.rsplit_once(", expected ") {
        Some((_, expected)) => format!("{expected} is expected, {given} was given"),
        None => "it cannot be read".to_owned(),
    }
}

/// Whatever length a caller chose, an error stays readable.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 64;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use agentiso_core::Failure;
    use serde_json::json;

    use super::*;
    use crate::catalogue;

    fn mistake(action: &str, arguments: Value) -> Failure {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let entry = catalogue::find(action).unwrap();
        entry.check(&arguments).unwrap_err().into()
    }

    #[test]
    fn an_unknown_parameter_is_named_with_the_one_that_was_meant() {
        let failure = mistake("exec", json!({"workspace_id": "a", "comand": "true"}));
        assert_eq!(failure.code(), Code::InvalidArgument);
        assert_eq!(failure.message(), "`comand` is not a parameter of exec");
        assert_eq!(failure.remedy(), Some("did you mean `command`?"));
    }

    #[test]
    fn a_missing_parameter_is_named_with_what_it_is_for() {
        let failure = mistake("file_read", json!({"workspace_id": "a"}));
        assert_eq!(failure.message(), "`path` is missing");
        assert_eq!(failure.remedy(), Some("path: Absolute path."));
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_place_and_never_shown() {
        let failure = mistake("set_env", json!({"workspace_id": "a", "vars": {"TOKEN": 123_456}}));
        assert_eq!(
            failure.message(),
            "`vars.TOKEN` is wrong: a string is expected, something else was given"
        );
        let failure = mistake("exec", json!({"workspace_id": "a", "command": "b", "timeout_secs": "hush"}));
        assert_eq!(
            failure.message(),
            "`timeout_secs` is wrong: expected a whole number from 1 to 86400, for example 120; text was given"
        );
        let failure = mistake("port_forward_add", json!({"workspace_id": "a", "guest_port": 70_000}));
        assert_eq!(
            failure.message(),
            "`guest_port` is wrong: expected a whole number from 1 to 65535, for example 8080; a number outside \
             that range was given"
        );
        let failure = mistake("exec", json!({"workspace_id": "a", "command": "b", "env": ["A=1"]}));
        assert_eq!(
            failure.message(),
            "`env` is wrong: expected an object of names and values, for example {\"DEBUG\": \"1\"}; an array was given"
        );
    }

    #[test]
    fn a_mistake_deep_inside_is_named_by_its_place() {
        let edits = json!([{"old_string": "a", "new_string": "b"}, {"old_string": "a"}]);
        let failure = mistake("file_edit", json!({"workspace_id": "a", "path": "/b", "edits": edits}));
        assert_eq!(failure.message(), "`edits[1]` is wrong: `new_string` is missing");
    }

    #[test]
    fn a_name_of_any_length_gives_a_short_message() {
        let failure = mistake("exec", json!({"workspace_id": "a", "x".repeat(100_000): 1}));
        assert!(failure.message().len() < 200);
    }
}
