//! Operations that are not actions: sessions, events, streams, the daemon itself, and actions by name.

use agentiso_core::action::forms::WorkspaceReference;
use agentiso_core::wire::{
    ErrorBody, ExecControl, ExecSpec, ExecWord, JobOutput, ProgressWord, RunSpec, SessionRequest,
    SessionStarted, WorkspaceEvent,
};
use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use super::actions::{parameter, responses};
use super::{Paths, errors, reference, tag};
use crate::catalogue;

/// Adds the operations to those of the actions.
pub(super) fn add(paths: &mut Paths, generator: &mut SchemaGenerator) {
    let workspace = parameter("workspace_id", true, true, reference::<WorkspaceReference>(generator));
    let job =
        parameter("job_id", true, true, json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }));
    let mut add = |method: &str, path: &str, mut operation: Value| {
        operation["tags"] = json!([tag(path)]);
        paths.entry(path.to_owned()).or_default().insert(method.to_owned(), operation);
    };

    add("post", "/v1/actions/{name}", action_by_name(generator));
    add(
        "post",
        "/v1/sessions",
        json!({
            "operationId": "session_begin",
            "summary": "Start a session",
            "description": "Starts a session and returns its token, once. Only the user can start sessions.",
            "requestBody": required_json(reference::<SessionRequest>(generator)),
            "responses": or_errors("The session.", reference::<SessionStarted>(generator)),
        }),
    );
    add(
        "delete",
        "/v1/sessions/current",
        json!({
            "operationId": "session_end",
            "summary": "End this session",
            "description": "Ends the session of the caller. Its workspaces stay, without an owner.",
            "responses": or_errors("Whether the caller had a session.", object(&[("ended", "boolean")])),
        }),
    );
    add(
        "get",
        "/v1/sessions/current/presence",
        json!({
            "operationId": "session_presence",
            "summary": "Keep this session alive",
            "description": "A stream that stays open. While it is open the session does not end.",
            "responses": events("An event `present`, then only keep-alive comments.", &[]),
        }),
    );
    let (happened, missed) = (reference::<WorkspaceEvent>(generator), object(&[("missed", "integer")]));
    add(
        "get",
        "/v1/events",
        json!({
            "operationId": "events",
            "summary": "Watch workspaces",
            "description": "What happens to workspaces, as it happens: to all of them for the user, to its own for a \
                            session. The name of an event is its kind. A client that reads too slowly gets `missed` \
                            with the number of events it missed.",
            "responses": events("Events.", &[("*", happened), ("missed", missed)]),
        }),
    );
    let (output, failure) = (reference::<JobOutput>(generator), reference::<ErrorBody>(generator));
    add(
        "get",
        "/v1/workspaces/{workspace_id}/jobs/{job_id}/stream",
        json!({
            "operationId": "job_stream",
            "summary": "Watch a background command",
            "description": "The output of a background command from its beginning, until it exits.",
            "parameters": [workspace, job],
            "responses": events(
                "Events: `output`, then `exit` or `error`.",
                &[("output", output), ("exit", object(&[("exit_code", "integer")])), ("error", failure)],
            ),
        }),
    );
    add("get", "/v1/workspaces/{workspace_id}/exec/stream", exec_stream(workspace, generator));
    add("get", "/v1/run/stream", run_stream(generator));
    let stop = parameter("stop_machines", false, false, json!({ "type": "boolean" }));
    add(
        "post",
        "/v1/shutdown",
        json!({
            "operationId": "shutdown",
            "summary": "Stop the daemon",
            "description": "Stops the daemon. Machines keep running unless stop_machines is true. Only the user can.",
            "parameters": [stop],
            "responses": or_errors(
                "The daemon is stopping.",
                object(&[("ending", "boolean"), ("stop_machines", "boolean")]),
            ),
        }),
    );
    add(
        "get",
        "/v1/openapi.json",
        json!({
            "operationId": "openapi",
            "summary": "This document",
            "responses": or_errors("This document.", json!({ "type": "object" })),
        }),
    );
    add(
        "get",
        "/metrics",
        json!({
            "operationId": "metrics",
            "summary": "Metrics",
            "description": "Metrics in the text format of Prometheus.",
            "responses": with_errors(json!({
                "description": "The metrics.",
                "content": { "text/plain": { "schema": { "type": "string" } } },
            })),
        }),
    );
    add(
        "get",
        "/healthz",
        json!({
            "operationId": "health",
            "summary": "Health",
            "description": "Answers while the daemon works. Needs no token.",
            "security": [],
            "responses": or_errors("The daemon works.", object(&[
                ("status", "string"), ("workspaces", "object"), ("uptime_seconds", "integer"),
            ])),
        }),
    );
    for (method, id, summary) in [
        ("post", "mcp_post", "Send an MCP message"),
        ("get", "mcp_get", "Open the stream of an MCP session"),
        ("delete", "mcp_delete", "End an MCP session"),
    ] {
        add(method, "/mcp", mcp(id, summary));
    }
    // Events of an action refer to it in their description.
    reference::<ProgressWord>(generator);
}

fn action_by_name(generator: &mut SchemaGenerator) -> Value {
    let names: Vec<&str> = catalogue::ALL.iter().map(|entry| entry.about.name).collect();
    let (mut inputs, mut outcomes) = (Vec::new(), Vec::new());
    for entry in catalogue::ALL {
        inputs.push(entry.input_component(generator));
        let outcome = entry.output_component(generator);
        if !outcomes.contains(&outcome) {
            outcomes.push(outcome);
        }
    }
    json!({
        "operationId": "action",
        "summary": "Carry out an action by its name",
        "description": "The body has all parameters of the action. What actions do is described at their own routes.",
        "parameters": [parameter("name", true, true, json!({ "type": "string", "enum": names }))],
        "requestBody": { "content": { "application/json": { "schema": { "anyOf": inputs } } } },
        "responses": responses(json!({ "anyOf": outcomes })),
    })
}

fn web_socket() -> Map<String, Value> {
    let mut answers: Map<String, Value> = errors::references().collect();
    answers.insert("101".to_owned(), json!({ "description": "The connection is a WebSocket from now on." }));
    answers
}

fn run_stream(generator: &mut SchemaGenerator) -> Value {
    json!({
        "operationId": "run_stream",
        "summary": "Run a command in a workspace of its own",
        "description": "A WebSocket like that of exec_stream whose first message is a RunSpec. The server creates a \
                        workspace, sends `progress` meanwhile, runs the command, and destroys the workspace when the \
                        command ends or the connection closes.",
        "responses": web_socket(),
        "x-messages": {
            "client": [reference::<RunSpec>(generator), reference::<ExecControl>(generator)],
            "server": [reference::<ExecWord>(generator)],
        },
    })
}

fn exec_stream(workspace: Value, generator: &mut SchemaGenerator) -> Value {
    json!({
        "operationId": "exec_stream",
        "summary": "Run a command interactively",
        "description": "A WebSocket. The client sends an ExecSpec as text, then input as binary messages and \
                        ExecControl as text. The server sends ExecWord as text, and output as binary messages whose \
                        first byte is 1 (standard output) or 2 (standard error). The last message is `exit` or `error`.",
        "parameters": [workspace],
        "responses": web_socket(),
        "x-messages": {
            "client": [reference::<ExecSpec>(generator), reference::<ExecControl>(generator)],
            "server": [reference::<ExecWord>(generator)],
        },
    })
}

fn mcp(id: &str, summary: &str) -> Value {
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "description": "The Model Context Protocol over streamable HTTP.",
        "responses": {
            "default": {
                "description": "As the Model Context Protocol defines it.",
                "content": {
                    "application/json": { "schema": { "type": "object" } },
                    "text/event-stream": { "schema": { "type": "string" } },
                },
            },
        },
    });
    if id == "mcp_post" {
        operation["requestBody"] = required_json(json!({ "type": "object" }));
    }
    operation
}

fn required_json(schema: Value) -> Value {
    json!({ "required": true, "content": { "application/json": { "schema": schema } } })
}

/// An object of which these fields are always there.
fn object(fields: &[(&str, &str)]) -> Value {
    let properties: Map<String, Value> =
        fields.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn or_errors(description: &str, schema: Value) -> Map<String, Value> {
    with_errors(
        json!({ "description": description, "content": { "application/json": { "schema": schema } } }),
    )
}

/// A stream of events, with the schema of each kind of event.
fn events(description: &str, kinds: &[(&str, Value)]) -> Map<String, Value> {
    let kinds: Map<String, Value> =
        kinds.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let mut answer = json!({
        "description": description,
        "content": { "text/event-stream": { "schema": { "type": "string" } } },
    });
    if !kinds.is_empty() {
        answer["x-events"] = Value::Object(kinds);
    }
    with_errors(answer)
}

fn with_errors(answer: Value) -> Map<String, Value> {
    std::iter::once(("200".to_owned(), answer)).chain(errors::references()).collect()
}
