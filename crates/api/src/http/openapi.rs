//! The REST interface described for programs.

use std::collections::BTreeMap;

use agentiso_core::Code;
use agentiso_core::action::Route;
use serde_json::{Map, Value, json};

use super::answer::status_of;
use super::routes::routes;
use crate::catalogue::Entry;

/// The whole interface, as OpenAPI 3.1 has it.
pub fn openapi() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for (entry, route) in routes() {
        let method = route.method.as_str().to_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(route, entry));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentiso",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Linux workspaces in which mistakes are cheap. Served on a unix socket for its user, and \
                            over TCP only with a token. With `Accept: text/event-stream` any operation answers with \
                            events: `progress` as it goes, then `result` or `error`."
        },
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": error_schema() }
        },
        "security": [{ "token": [] }],
        "paths": paths
    })
}

fn operation(route: &Route, entry: &Entry) -> Value {
    let schema = entry.input_schema();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let in_path: Vec<&str> =
        route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
    let has_body = route.method.has_body();
    let (mut parameters, mut body) = (Vec::new(), Map::new());
    for (name, property) in properties {
        let place = if in_path.contains(&name.as_str()) { "path" } else { "query" };
        if place == "query" && has_body {
            body.insert(name, property);
            continue;
        }
        let needed = place == "path" || required.iter().any(|one| *one == json!(name));
        parameters.push(json!({ "name": name, "in": place, "required": needed, "schema": property }));
    }
    let mut operation = json!({
        "operationId": format!("{}{}", entry.about.name, if route.path.ends_with("/timeline") && in_path.len() == 1 { "_of_workspace" } else { "" }),
        "summary": entry.about.title,
        "description": entry.about.description,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "What came of it",
                "content": { "application/json": { "schema": entry.output_schema() } }
            },
            "default": {
                "description": "Why nothing came of it",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } }
            }
        }
    });
    if has_body && !body.is_empty() {
        let needed: Vec<&Value> = required
            .iter()
            .filter(|name| name.as_str().is_some_and(|name| body.contains_key(name)))
            .collect();
        operation["requestBody"] = json!({
            "required": !needed.is_empty(),
            "content": { "application/json": { "schema": {
                "type": "object", "properties": body, "required": needed, "additionalProperties": false
            } } }
        });
    }
    operation
}

fn error_schema() -> Value {
    let codes: Vec<&str> = Code::all().iter().map(|code| code.as_str()).collect();
    let statuses: BTreeMap<&str, u16> =
        Code::all().iter().map(|code| (code.as_str(), status_of(*code).as_u16())).collect();
    json!({
        "type": "object",
        "required": ["error"],
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string", "enum": codes },
                "message": { "type": "string" },
                "remedy": { "type": "string" }
            }
        } },
        "x-status-of-code": statuses
    })
}
