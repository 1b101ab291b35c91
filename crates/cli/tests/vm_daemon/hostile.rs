//! Clients that make mistakes, disconnect, do not read, or are hostile.

use std::io::{Read, Write};
use std::process::Stdio;

use serde_json::{Map, Value, json};

use crate::http::Http;
use crate::mcp::Mcp;
use crate::place::Place;
use crate::schema::{kinds, required, sample};
use crate::sleeper;

#[test]
fn malformed_messages_are_answered_or_skipped_and_the_next_call_works() {
    let place = Place::new();
    let mut mcp = place.mcp(&[]);
    for frame in [
        "",
        "not json",
        "{",
        "[]",
        "null",
        "5",
        "\"text\"",
        "{}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":900,\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":901,\"method\":5}",
        "{\"jsonrpc\":\"2.0\",\"id\":902,\"method\":\"no/such/method\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":903,\"method\":\"tools/call\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":904,\"method\":\"tools/call\",\"params\":[]}",
        "{\"jsonrpc\":\"2.0\",\"id\":905,\"method\":\"tools/call\",\"params\":{\"name\":5}}",
        "{\"jsonrpc\":\"2.0\",\"id\":906,\"method\":\"tools/call\",\"params\":{\"name\":\"exec\",\"arguments\":[]}}",
        "{\"jsonrpc\":\"2.0\",\"id\":907,\"method\":\"tools/call\",\"params\":{\"name\":\"no_such_tool\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":908,\"method\":\"resources/read\",\"params\":{\"uri\":\"file:///etc/passwd\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"none\"}}",
        "{\"jsonrpc\":\"2.0\",\"id\":909,\"result\":{}}",
        "\u{0}\u{1}\u{2}",
        &"[".repeat(100_000),
        &format!("{{\"jsonrpc\":\"2.0\",\"id\":910,\"method\":\"{}\"}}", "x".repeat(1 << 20)),
    ] {
        mcp.write(frame);
        let status = mcp.call("server_status", json!({}));
        assert_eq!(status["pid"], place.daemon().unwrap(), "after {:.80}", frame);
    }
    let unknown = mcp.request("tools/call", json!({"name": "exek", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("did you mean exec?"), "{unknown}");
    // None of the messages with an id got a result.
    for note in &mcp.notes {
        assert!(note["result"].is_null(), "{note}");
    }
    // A client that begins with garbage affects only itself.
    let mut rude = Mcp::silent(place.command(&["serve"]));
    rude.write("nonsense");
    rude.write(
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"workspace_create\"}}",
    );
    rude.kill();
    assert_eq!(mcp.call("workspace_list", json!({}))["count"], 0);
}

#[test]
fn a_command_ends_when_its_client_disconnects_or_cancels_and_a_job_does_not() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let user = place.http();
    let mut mcp = place.mcp(&[]);
    mcp.create("web");
    let job = mcp.call("exec_background", json!({"workspace_id": "web", "command": "exec sleep 1000"}));
    let sleep =
        |name: &str| json!({"workspace_id": "web", "command": sleeper::command(name), "timeout_secs": 3600});
    let runs = |name: &str| sleeper::runs(&user, "web", name);
    let is_gone = |name: &str| sleeper::is_gone(&user, "web", name);

    let taken_back = mcp.send("tools/call", json!({"name": "exec", "arguments": sleep("cancelled")}));
    runs("cancelled");
    let word = json!({"requestId": taken_back, "reason": "enough"});
    mcp.write(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": word}).to_string());
    is_gone("cancelled");

    mcp.send("tools/call", json!({"name": "exec", "arguments": sleep("killed")}));
    runs("killed");
    mcp.kill();
    is_gone("killed");

    let listening = user.events("POST", "/v1/actions/exec", Some(&sleep("hung-up")));
    runs("hung-up");
    drop(listening);
    is_gone("hung-up");

    let jobs = user.act("exec_list", json!({"workspace_id": "web"}));
    assert_eq!((&jobs["jobs"][0]["job_id"], &jobs["jobs"][0]["running"]), (&job["job_id"], &json!(true)));
    let timeline = user.act("timeline", json!({"workspace_id": "web", "limit": 1000}));
    let events = timeline["events"].as_array().unwrap().iter();
    let cancelled = events.filter(|event| event["action"] == "exec" && event["outcome"] == "cancelled");
    assert_eq!(cancelled.count(), 3, "{timeline}");
    // The next client can immediately use what the killed client created.
    let mut next = place.mcp(&[]);
    crate::place::until(|| {
        next.result("exec", json!({"workspace_id": "web", "command": "true"}))["isError"] != true
    });
}

#[test]
fn clients_that_never_read_block_nobody() {
    let place = Place::new();
    let user = place.http();
    let mut mcp = place.mcp(&[]);
    mcp.create("web");
    mcp.sh("web", "head -c 4000000 /dev/zero | tr '\\0' x > /root/large");
    let large = json!({"path": "/root/large", "limit": 4_000_000, "workspace_id": "web"});

    // Over MCP: many responses, each larger than a pipe, and nobody reads them.
    let mut deaf = place.command(&["serve"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let stdin = deaf.stdin.as_mut().unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}});
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))
        .unwrap();
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).unwrap();
    for id in 1..=20 {
        let call = json!({"name": "workspace_list", "arguments": {}});
        writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call}))
            .unwrap();
        let list = json!({"jsonrpc": "2.0", "id": 100 + id, "method": "tools/list", "params": {}});
        writeln!(stdin, "{list}").unwrap();
    }
    // Over HTTP: a large response, and the stream of all events.
    let unread: Vec<_> = (0..10)
        .map(|_| user.events("POST", "/v1/actions/file_read", Some(&large)))
        .chain((0..10).map(|_| user.events("GET", "/v1/events", None)))
        .collect();
    let mut watched = user.events("GET", "/v1/events", None);
    watched.wait_for_head();
    // More events than the daemon buffers for a slow client.
    for index in 0..300 {
        let name = if index % 2 == 0 { "site" } else { "web" };
        let former = if index % 2 == 0 { "web" } else { "site" };
        user.act("workspace_rename", json!({"workspace_id": former, "new_name": name}));
    }
    for _ in 0..5 {
        assert_eq!(mcp.sh("web", "echo heard"), "heard");
        assert_eq!(user.act("file_read", large.clone())["bytes"], 4_000_000);
    }
    assert_eq!(watched.next().unwrap().0, "renamed");
    drop(unread);
    // It gets its response when it finally reads.
    let mut said = [0; 1];
    deaf.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"{");
    deaf.kill().unwrap();
    deaf.wait().unwrap();
    assert_eq!(mcp.sh("web", "echo heard"), "heard");
}

#[test]
fn invalid_arguments_are_rejected_with_a_code_and_change_nothing() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let user = place.http();
    let mut mcp = place.mcp(&["--tools", "full"]);
    mcp.create("target");
    user.act("workspace_create", json!({"name": "other"}));
    place.session("owner").act("workspace_adopt", json!({"workspace_id": "other"}));
    let before = state(&user);
    let daemon = place.daemon();

    let tools = mcp.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    assert!(tools.len() > 45, "{}", tools.len());
    let mut calls = 0;
    for tool in &tools {
        let (name, schema) = (tool["name"].as_str().unwrap(), &tool["inputSchema"]);
        for arguments in mistakes(schema) {
            let refusal = mcp.refused(name, arguments.clone());
            assert_eq!(refusal.code, "invalid_argument", "{name} {arguments}: {}", refusal.said);
            assert!(refusal.said.len() < 2000, "{name} {arguments}: {}", refusal.said);
            let over_http = user.request("POST", &format!("/v1/actions/{name}"), Some(&arguments));
            over_http.is_refusal(400, "invalid_argument");
            calls += 1;
        }
        for (workspace, codes) in [
            ("other", &["not_owner", "invalid_argument"][..]),
            ("01a1e298-8baa-751b-9e02-4f0b168fd871", &["workspace_not_found", "invalid_argument"]),
            ("'; drop table workspaces; --", &["workspace_not_found", "invalid_argument"]),
        ] {
            let Some(arguments) = plausible(schema, workspace) else { continue };
            let refusal = mcp.refused(name, arguments.clone());
            assert!(codes.contains(&refusal.code.as_str()), "{name} {arguments}: {refusal:?}");
        }
    }
    assert!(calls > 500, "{calls}");
    assert_eq!((state(&user), place.daemon()), (before, daemon));
    assert_eq!(mcp.sh("target", "echo well"), "well");
}

/// Everything that a call could have changed.
fn state(user: &Http) -> Vec<Value> {
    let listed = user.act("workspace_list", json!({}));
    let names = listed["workspaces"].as_array().unwrap().iter().map(|one| one["name"].clone());
    let details = names.map(|name| {
        let mut details = user.act("workspace_info", json!({"workspace_id": name}));
        for changing in ["last_used_at", "disk_used_bytes"] {
            details.as_object_mut().unwrap().remove(changing);
        }
        details
    });
    details.collect()
}

/// Arguments with exactly one mistake each that no conversion could repair.
fn mistakes(schema: &Value) -> Vec<Value> {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let required: Vec<&str> = required(schema);
    let good: Map<String, Value> =
        required.iter().map(|name| ((*name).to_owned(), sample(&properties[*name], "target"))).collect();
    let with = |name: &str, value: Value| {
        let mut arguments = good.clone();
        arguments.insert(name.to_owned(), value);
        Value::Object(arguments)
    };
    let mut wrong =
        vec![with("no_such_parameter", json!(1)), with(&"x".repeat(10_000), json!("y".repeat(10_000)))];
    for name in &required {
        let mut arguments = good.clone();
        arguments.remove(*name);
        wrong.push(Value::Object(arguments));
    }
    for (name, property) in &properties {
        let kinds = kinds(property);
        let is = |kind: &str| kinds.iter().any(|one| one == kind);
        let values = [
            ("object", json!({"x": {"y": [1]}})),
            ("array", json!([[{"x": 1}]])),
            ("boolean", json!(true)),
            ("number", json!(-1.5e300)),
            ("integer", json!(-1)),
            ("integer", json!(1e30)),
            ("string", json!("\u{0}$(id)../\u{202e}")),
        ];
        for (kind, value) in values {
            // An object or list of the right kind may be valid inside, and -1 is a valid integer for a signal.
            let fits = is(kind) && (kind != "integer" || property["minimum"].is_null());
            if !fits {
                wrong.push(with(name, value));
            }
        }
    }
    wrong
}

/// Valid arguments of a tool for a workspace. `None` if it takes no workspace.
fn plausible(schema: &Value, workspace: &str) -> Option<Value> {
    let properties = schema["properties"].as_object()?;
    properties.get("workspace_id")?;
    let mut arguments: Map<String, Value> = required(schema)
        .iter()
        .map(|name| ((*name).to_owned(), sample(&properties[*name], workspace)))
        .collect();
    arguments.insert("workspace_id".to_owned(), json!(workspace));
    Some(Value::Object(arguments))
}
