//! Operations that are actions.

use agentiso_core::action::Route;
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::{errors, tag};
use crate::catalogue::Entry;

/// An action as an operation of one of its routes.
pub(super) fn operation(route: &Route, entry: &Entry, generator: &mut SchemaGenerator) -> Value {
    let mut input = entry.described_input(generator);
    let in_path: Vec<&str> = route.parameters().collect();
    let required: Vec<String> = strings(&input["required"]);
    let mut parameters = Vec::new();
    let properties = input["properties"].as_object().cloned().unwrap_or_default();
    let mut body = Map::new();
    for (name, property) in properties {
        let is_in_path = in_path.contains(&name.as_str());
        if !is_in_path && route.method.has_body() {
            body.insert(name, property);
        } else {
            let is_required = is_in_path || required.contains(&name);
            parameters.push(parameter(&name, is_in_path, is_required, property));
        }
    }
    let mut operation = json!({
        "operationId": operation_id(entry, route),
        "summary": entry.about.title,
        "description": entry.about.description,
        "tags": [tag(route.path)],
        "parameters": parameters,
        "responses": responses(entry.output_component(generator)),
    });
    if route.method.has_body() && !body.is_empty() {
        let required: Vec<&String> = required.iter().filter(|name| body.contains_key(*name)).collect();
        let is_required = !required.is_empty() || input.get("anyOf").is_some();
        input["required"] = json!(required);
        input["properties"] = Value::Object(body);
        operation["requestBody"] =
            json!({ "required": is_required, "content": { "application/json": { "schema": input } } });
    }
    operation
}

/// The answers of an action: its outcome or its events, or a failure.
pub(super) fn responses(outcome: Value) -> Map<String, Value> {
    let answer = json!({
        "description": "The outcome; with `Accept: text/event-stream`, events that end with `result` or `error`.",
        "content": {
            "application/json": { "schema": outcome },
            "text/event-stream": { "schema": { "type": "string" } },
        },
    });
    std::iter::once(("200".to_owned(), answer)).chain(errors::references()).collect()
}

/// A parameter in the path or the query. Lists and objects in a query are JSON.
pub(super) fn parameter(name: &str, is_in_path: bool, is_required: bool, mut schema: Value) -> Value {
    let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let place = if is_in_path { "path" } else { "query" };
    let mut parameter = json!({ "name": name, "in": place, "required": is_required });
    if let Some(description) = description {
        parameter["description"] = description;
    }
    let is_compound = schema["type"] == "object" || schema["type"] == "array";
    match is_compound {
        true => parameter["content"] = json!({ "application/json": { "schema": schema } }),
        false => parameter["schema"] = schema,
    }
    parameter
}

/// The name of an operation: the action's, or for a further route of it, also what the path is about.
fn operation_id(entry: &Entry, route: &Route) -> String {
    match entry.about.routes.first() {
        Some(first) if first == route => entry.about.name.to_owned(),
        _ => format!("{}_of_{}", entry.about.name, route.parameters().last().unwrap_or("all")),
    }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
