//! The OpenAPI document: every route that the daemon serves.
//!
//! Operations of actions are generated from their declarations, the others are described in `others.rs`. Types become
//! named components under the name of their Rust type, and operations refer to them.

mod actions;
mod errors;
mod others;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::routes::routes;
use crate::catalogue;

/// What the description of a paths object consists of.
type Paths = BTreeMap<String, Map<String, Value>>;

/// The whole interface, as OpenAPI 3.1 describes it. It is generated once.
pub fn openapi() -> &'static Value {
    static DOCUMENT: LazyLock<Value> = LazyLock::new(document);
    &DOCUMENT
}

fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into());
    let mut generator = settings.into_generator();
    let mut paths = Paths::new();
    for (entry, route) in routes() {
        let method = route.method.as_str().to_lowercase();
        let operation = actions::operation(route, entry, &mut generator);
        paths.entry(route.path.to_owned()).or_default().insert(method, operation);
    }
    others::add(&mut paths, &mut generator);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "agentiso",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": DESCRIPTION,
        },
        "servers": [
            {
                "url": "http://localhost",
                "description": "The Unix socket of the daemon. Only its user can open it; no token is needed.",
            },
            {
                "url": "http://{address}",
                "description": "The address that daemon.listen configures. Every request needs a token.",
                "variables": { "address": { "default": "127.0.0.1:7070" } },
            },
        ],
        "tags": TAGS.map(|(name, description)| json!({ "name": name, "description": description })),
        "security": [{ "token": [] }, { "token": [], "session": [] }, {}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The user's token (daemon.token_file) or the token of a session.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Agentiso-Session",
                    "description": "A secret of the client's own, 16 to 128 characters, that gives it a session of its \
                                    own besides the user's token.",
                },
            },
            "responses": errors::responses(&mut generator),
            "schemas": components(generator),
        },
    })
}

const DESCRIPTION: &str = "Linux virtual machines as workspaces for AI agents. Every action has a route; \
    `POST /v1/actions/{name}` carries out any action by its name. With `Accept: text/event-stream`, an action answers \
    with events: `progress` (ProgressWord) while it runs, then `result` (its outcome) or `error` (ErrorBody). Lengths \
    in schemas are in characters. Sizes are also limited by the configuration of the server.";

/// Groups of operations, in the order in which they are shown.
const TAGS: [(&str, &str); 10] = [
    ("workspaces", "Create, start, stop, fork and destroy workspaces."),
    ("commands", "Run commands in a workspace, waiting for them or in the background."),
    ("files", "Read, write, search and copy files of a workspace."),
    ("snapshots", "Take, restore, compare and delete snapshots."),
    ("network", "Forward ports, and set network rules."),
    ("git", "Use git in a workspace."),
    ("images", "Manage the images that workspaces start from."),
    ("sessions", "Sessions of clients, which own workspaces."),
    ("server", "The state of the server, its events and its log."),
    ("actions", "Any action by its name."),
];

/// The group of an operation, by its path.
fn tag(path: &str) -> &'static str {
    let parts: Vec<&str> = path.trim_start_matches("/v1/").split('/').collect();
    match parts.as_slice() {
        ["workspaces", _, "exec" | "jobs" | "env", ..] => "commands",
        ["workspaces", _, "files", ..] => "files",
        ["workspaces", _, "snapshots", ..] => "snapshots",
        ["workspaces", _, "forwards" | "network" | "ip", ..] => "network",
        ["workspaces", _, "git", ..] => "git",
        ["workspaces" | "adopt" | "stats", ..] => "workspaces",
        ["images", ..] => "images",
        ["sessions", ..] => "sessions",
        ["actions", ..] => "actions",
        _ => "server",
    }
}

/// A reference to the component of a type.
fn reference<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

/// Everything that was referred to.
fn components(mut generator: SchemaGenerator) -> Map<String, Value> {
    let inputs = catalogue::ALL.iter().map(|entry| entry.input_component(&mut generator)).collect::<Vec<_>>();
    let mut components = generator.take_definitions(true);
    for input in inputs {
        let name = input["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let properties =
            components.get_mut(name).and_then(|input| input.get_mut("properties")?.as_object_mut());
        properties.into_iter().flat_map(Map::values_mut).for_each(catalogue::without_null);
    }
    components
}
