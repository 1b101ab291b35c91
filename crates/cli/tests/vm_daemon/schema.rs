//! Helpers for the JSON schemas of tools.

use serde_json::{Value, json};

/// The required parameters of a tool.
pub fn required(schema: &Value) -> Vec<&str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The types that a parameter accepts.
pub fn kinds(property: &Value) -> Vec<String> {
    match &property["type"] {
        Value::String(kind) => vec![kind.clone()],
        Value::Array(kinds) => kinds.iter().filter_map(|kind| kind.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A valid value of a parameter.
pub fn sample(property: &Value, workspace: &str) -> Value {
    if let Some(first) = property["enum"].as_array().and_then(|words| words.first()) {
        return first.clone();
    }
    match kinds(property).first().map(String::as_str) {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(false),
        Some("object") => json!({}),
        Some("array") => json!([]),
        _ => json!(workspace),
    }
}
