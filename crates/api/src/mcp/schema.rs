//! Generates JSON schemas for tools: simple, self-contained, and with standard keywords only.

use serde_json::{Map, Value, json};

use super::table::{Does, Form, Spec};
use crate::catalogue::Entry;

/// The input schema of a tool.
pub(super) fn input(
    spec: &Spec,
    forms: &[(Option<&'static str>, Form, &'static Entry)],
) -> Map<String, Value> {
    let parts: Vec<(Option<&str>, Map<String, Value>)> =
        forms.iter().map(|(word, form, entry)| (*word, of_form(form, entry))).collect();
    match &spec.does {
        Does::One(_) => parts.into_iter().next().map(|(_, schema)| schema).unwrap_or_default(),
        Does::Several(bundle) => union(&parts, bundle.otherwise.map(|(word, _)| word)),
    }
}

/// The output schema of a tool: names and types of fields. Their descriptions are only in the reference, because
/// clients send tool lists with every conversation. Nothing is required: a failure only has `error`, and some clients
/// check failures against this schema as well.
pub(super) fn output(forms: &[(Option<&'static str>, Form, &'static Entry)]) -> Map<String, Value> {
    let mut properties = Map::new();
    for (_, _, entry) in forms {
        let mut schema = tidy(entry.output_schema().clone());
        bare(&mut schema);
        for (field, property) in object(schema.remove("properties").unwrap_or_default()) {
            match properties.get(&field) {
                // A field whose type differs between actions is left unconstrained.
                Some(known) if *known != property => properties.insert(field, json!({})),
                _ => properties.insert(field, property),
            };
        }
    }
    properties.insert("error".to_owned(), json!({"type": "object"}));
    object(json!({"type": "object", "properties": properties}))
}

/// Removes descriptions and `required` at any depth.
fn bare(schema: &mut Map<String, Value>) {
    for key in ["description", "required", "default", "minimum", "maximum", "enum"] {
        schema.remove(key);
    }
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().filter_map(Value::as_object_mut).for_each(bare);
            }
            ("anyOf" | "allOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter_mut().filter_map(Value::as_object_mut).for_each(bare);
            }
            ("items" | "additionalProperties", Value::Object(schema)) => bare(schema),
            _ => {}
        }
    }
}

/// The schema of an action's parameters, in the form that a tool offers.
fn lean(property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    property.retain(|key, value| match key.as_str() {
        "pattern" | "not" | "maxLength" | "minLength" | "examples" | "propertyNames" | "maxProperties"
        | "minItems" | "writeOnly" => false,
        // That a count is not negative goes without saying.
        "minimum" => *value != json!(0),
        _ => true,
    });
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = property.get_mut(key) {
            lean(inner);
        }
    }
    if let Some(Value::Object(properties)) = property.get_mut("properties") {
        properties.values_mut().for_each(lean);
    }
}

/// The schema of an action's parameters in the form a tool offers it.
fn of_form(form: &Form, entry: &Entry) -> Map<String, Value> {
    let mut schema = tidy(entry.input_schema().clone());
    // Parameters that are unknown are refused with the nearest name, whether a list says so or not.
    schema.retain(|key, _| matches!(key.as_str(), "type" | "properties" | "required"));
    let mut required: Vec<String> = strings(schema.get("required"));
    required.extend(form.needs.iter().map(|field| (*field).to_owned()));
    let mut properties = Map::new();
    for (field, mut property) in object(schema.remove("properties").unwrap_or_default()) {
        if form.without.contains(&field.as_str()) || form.unlisted.contains(&field.as_str()) {
            continue;
        }
        lean(&mut property);
        if let Some((_, said)) = form.described.iter().find(|(described, _)| *described == field) {
            property["description"] = json!(said);
        }
        if let Some((_, value)) = form.defaults.iter().find(|(default, _)| *default == field) {
            property["default"] = json!(value);
        }
        properties.insert(form.name_here(&field), property);
    }
    let required: Vec<String> = required
        .iter()
        .filter(|field| !form.without.contains(&field.as_str()))
        .map(|field| form.name_here(field))
        .collect();
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("required".to_owned(), json!(required));
    schema
}

/// Merges the schemas of a tool's actions. Every parameter says which action words use it.
fn union(parts: &[(Option<&str>, Map<String, Value>)], otherwise: Option<&str>) -> Map<String, Value> {
    let words: Vec<&str> = parts.iter().filter_map(|(word, _)| *word).collect();
    let mut required: Vec<String> =
        parts.first().map(|(_, part)| strings(part.get("required"))).unwrap_or_default();
    for (_, part) in parts {
        let here = strings(part.get("required"));
        required.retain(|field| here.contains(field));
    }
    let about = match otherwise {
        Some(word) => format!("What to do; {word} if absent."),
        None => {
            required.insert(0, "action".to_owned());
            "What to do.".to_owned()
        }
    };
    let mut properties = Map::new();
    properties.insert("action".to_owned(), json!({"description": about, "type": "string", "enum": words}));
    let mut uses: Vec<(String, Vec<(&str, &Value)>)> = Vec::new();
    for (word, part) in parts {
        for (field, property) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let used = (word.unwrap_or_default(), property);
            match uses.iter_mut().find(|(known, _)| known == field) {
                Some((_, users)) => users.push(used),
                None => uses.push((field.clone(), vec![used])),
            }
        }
    }
    for (field, users) in uses {
        properties.insert(field, shared(&users, words.len()));
    }
    object(json!({"type": "object", "properties": properties, "required": required}))
}

/// A parameter that several action words use, with its description for each of them.
fn shared(users: &[(&str, &Value)], words: usize) -> Value {
    let mut meanings: Vec<(Vec<&str>, &str)> = Vec::new();
    for (word, property) in users {
        let meaning = property["description"].as_str().unwrap_or_default();
        match meanings.iter_mut().find(|(_, known)| *known == meaning) {
            Some((words, _)) => words.push(word),
            None => meanings.push((vec![word], meaning)),
        }
    }
    let mut property = users.first().map(|(_, property)| (*property).clone()).unwrap_or_default();
    property.as_object_mut().map(|property| property.remove("default"));
    property["description"] = match meanings.as_slice() {
        [(_, meaning)] if users.len() == words => json!(meaning),
        _ => {
            let parts =
                meanings.iter().map(|(words, meaning)| format!("For {}: {meaning}", words.join(", ")));
            json!(parts.collect::<Vec<_>>().join(" "))
        }
    };
    property
}

/// Removes Rust-specific keywords that clients do not know, at any depth.
fn tidy(schema: Value) -> Map<String, Value> {
    let mut schema = object(schema);
    schema.remove("$schema");
    schema.remove("title");
    schema.remove("format");
    for (key, value) in &mut schema {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(tidy_in_place),
            ("anyOf" | "allOf" | "oneOf", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(tidy_in_place)
            }
            ("items" | "additionalProperties", value) => tidy_in_place(value),
            _ => {}
        }
    }
    schema
}

fn tidy_in_place(schema: &mut Value) {
    if schema.is_object() {
        *schema = Value::Object(tidy(schema.take()));
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    value
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::tools;

    fn input_of(tool: &str) -> Value {
        Value::Object(tools::find(tool).unwrap().input.clone())
    }

    #[test]
    fn a_bundle_says_which_action_words_use_each_parameter() {
        let schema = input_of("snapshot");
        assert_eq!(schema["required"], json!(["action", "workspace_id"]));
        let properties = &schema["properties"];
        assert_eq!(properties["action"]["enum"], json!(["create", "restore", "list", "diff", "delete"]));
        assert_eq!(properties["workspace_id"]["description"], "Id or name.");
        assert_eq!(
            properties["name"]["description"],
            "For create: Name: letters, digits, hyphens, underscores and dots, at most 128, not `now`. \
             For restore, delete: The snapshot. For diff: Earlier point: a snapshot."
        );
        assert_eq!(properties.get("snapshot_name"), None);
    }

    #[test]
    fn parameters_that_share_a_name_share_a_type() {
        for tool in tools::all() {
            let mut types: Vec<(String, Value)> = Vec::new();
            for (_, form, entry) in &tool.forms {
                for (field, property) in of_form(form, entry)["properties"].as_object().unwrap() {
                    match types.iter().find(|(known, _)| known == field) {
                        Some((_, known)) => {
                            assert_eq!(*known, property["type"], "{} {field}", tool.spec.name)
                        }
                        None => types.push((field.clone(), property["type"].clone())),
                    }
                }
            }
        }
    }

    #[test]
    fn a_form_shows_defaults_but_no_fixed_parameters_and_no_rust_formats() {
        let schema = input_of("workspace_batch_fork");
        assert_eq!(schema["properties"]["snapshot_name"]["default"], "golden");
        assert_eq!(schema["required"], json!(["workspace_id", "count"]));
        assert_eq!(input_of("file_upload")["properties"].get("direction"), None);
        assert_eq!(input_of("workspace_adopt_all")["required"], json!([]));
        for tool in tools::all() {
            let text = json!(tool.listed()).to_string();
            for word in ["\"format\"", "$schema", "$ref"] {
                assert!(!text.contains(word), "{} has {word}", tool.spec.name);
            }
        }
    }

    #[test]
    fn every_schema_is_an_object_and_accepts_failures() {
        for tool in tools::all() {
            assert_eq!(tool.input["type"], "object");
            let output = tool.listed().output_schema.unwrap();
            assert_eq!(output["type"], "object");
            assert!(!json!(output).to_string().contains("\"required\""), "{}", tool.spec.name);
            assert_eq!(output["properties"]["error"]["type"], "object", "{}", tool.spec.name);
        }
    }
}
