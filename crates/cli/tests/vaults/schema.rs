//! Checks values against the published schemas. It knows exactly the keywords that they use, so a new keyword fails a test
//! instead of being ignored; and it refuses fields that a schema does not name.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// Checks a value against a published schema.
pub fn check(name: &str, value: &Value) {
    let path = directory().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&text).unwrap();
    if let Err(problem) = matches(&schema, &schema, value) {
        panic!("{name}: {problem}\n{value}");
    }
}

/// Keywords without a meaning for whether a value matches.
const NOTES: &[&str] = &["$schema", "$defs", "title", "description", "format", "default", "examples"];

fn matches(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(keywords) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err("nothing matches".to_owned()) };
    };
    for (keyword, wanted) in keywords {
        match keyword.as_str() {
            "$ref" => matches(root, resolve(root, wanted), value)?,
            "type" => {
                let types = match wanted {
                    Value::Array(types) => types.clone(),
                    one => vec![one.clone()],
                };
                if !types.iter().any(|one| is(one.as_str().unwrap(), value)) {
                    return Err(format!("{value} is no {wanted}"));
                }
            }
            "const" if wanted != value => return Err(format!("{value} is not {wanted}")),
            "const" => {}
            "enum" if !wanted.as_array().unwrap().contains(value) => {
                return Err(format!("{value} is none of {wanted}"));
            }
            "enum" => {}
            "anyOf" | "oneOf" => {
                let options = wanted.as_array().unwrap();
                let fitting = options.iter().filter(|one| matches(root, one, value).is_ok()).count();
                if fitting == 0 || (keyword == "oneOf" && fitting != 1) {
                    return Err(format!("{value} matches {fitting} of {wanted}"));
                }
            }
            "allOf" => wanted.as_array().unwrap().iter().try_for_each(|one| matches(root, one, value))?,
            "minimum" => {
                if value.as_f64().is_some_and(|number| number < wanted.as_f64().unwrap()) {
                    return Err(format!("{value} is less than {wanted}"));
                }
            }
            "maximum" => {
                if value.as_f64().is_some_and(|number| number > wanted.as_f64().unwrap()) {
                    return Err(format!("{value} is more than {wanted}"));
                }
            }
            "items" => {
                for (index, one) in value.as_array().into_iter().flatten().enumerate() {
                    matches(root, wanted, one).map_err(|problem| format!("[{index}]: {problem}"))?;
                }
            }
            "required" => {
                for name in wanted.as_array().unwrap() {
                    if value.as_object().is_some_and(|object| !object.contains_key(name.as_str().unwrap())) {
                        return Err(format!("{name} is missing"));
                    }
                }
            }
            "properties" => {
                let others = keywords.get("additionalProperties");
                for (name, one) in value.as_object().into_iter().flatten() {
                    match wanted.get(name) {
                        Some(property) => {
                            matches(root, property, one).map_err(|problem| format!(".{name}: {problem}"))?;
                        }
                        None if others.is_none_or(|others| others == &Value::Bool(false)) => {
                            return Err(format!("{name:?} is not described"));
                        }
                        None => {}
                    }
                }
            }
            "additionalProperties" => {
                let named = keywords.get("properties");
                for (name, one) in value.as_object().into_iter().flatten() {
                    if named.is_none_or(|named| named.get(name).is_none()) {
                        matches(root, wanted, one).map_err(|problem| format!(".{name}: {problem}"))?;
                    }
                }
            }
            note if NOTES.contains(&note) => {}
            other => panic!("the schemas use the keyword {other:?}, which the tests do not know"),
        }
    }
    Ok(())
}

fn resolve<'s>(root: &'s Value, reference: &Value) -> &'s Value {
    let path = reference.as_str().unwrap().strip_prefix('#').unwrap();
    root.pointer(path).unwrap_or_else(|| panic!("{reference} leads nowhere"))
}

fn is(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other:?} is no type"),
    }
}

#[test]
fn values_that_differ_from_a_schema_are_found() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": { "type": ["string", "null"] },
            "b": { "type": "array", "items": { "$ref": "#/$defs/small" } }
        },
        "$defs": { "small": { "type": "integer", "minimum": 0, "maximum": 9 } }
    });
    let fits = |value: Value| matches(&schema, &schema, &value).is_ok();
    assert!(fits(serde_json::json!({ "a": "x", "b": [1, 2] })));
    assert!(fits(serde_json::json!({ "a": null })));
    for wrong in [
        serde_json::json!({}),
        serde_json::json!({ "a": 1 }),
        serde_json::json!({ "a": "x", "b": [10] }),
        serde_json::json!({ "a": "x", "b": ["1"] }),
        serde_json::json!({ "a": "x", "c": 1 }),
        serde_json::json!([]),
    ] {
        assert!(!fits(wrong.clone()), "{wrong}");
    }
}
