//! MCP over HTTP: calls, resources, progress and cancellation.

use std::fs;

use serde_json::{Value, json};

use crate::http::Http;
use crate::mcp_http::McpHttp;
use crate::place::{Place, until};
use crate::sleeper;

#[test]
fn a_client_of_an_older_revision_has_its_own_session() {
    let place = Place::new();
    let mut mcp = McpHttp::begin(&place.session("one"));
    lists_tools(&mut mcp);
    lives_a_life(&place, &mut mcp);
    // After the client has closed it, the session id is invalid.
    let gone = mcp.http().request("DELETE", "/mcp", None);
    assert!(gone.status / 100 == 2, "{} {}", gone.status, gone.body);
    let list = json!({"jsonrpc": "2.0", "id": 99, "method": "tools/list", "params": {}});
    assert_eq!(mcp.http().request("POST", "/mcp", Some(&list)).status, 404);
    let guessed = mcp.http().clone().with("mcp-session-id", "1234");
    assert_eq!(guessed.request("POST", "/mcp", Some(&list)).status, 404);
}

#[test]
fn a_client_of_the_newest_revision_works_without_a_session() {
    let place = Place::new();
    let mut mcp = McpHttp::newest(&place.session("one"), json!({}));
    let found = mcp.request("server/discover", json!({}));
    assert!(found["result"]["instructions"].as_str().unwrap().contains("workspace_create"), "{found}");
    lists_tools(&mut mcp);
    lives_a_life(&place, &mut mcp);
}

fn lists_tools(mcp: &mut McpHttp) {
    let listed = mcp.request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    for name in ["workspace_create", "exec", "workspace_destroy"] {
        let tool = named(name).unwrap_or_else(|| panic!("{name} is not listed"));
        assert!(tool["inputSchema"].is_object() && tool["outputSchema"].is_object(), "{tool}");
    }
}

fn lives_a_life(place: &Place, mcp: &mut McpHttp) {
    let made = mcp.call("workspace_create", json!({"name": "web"}));
    let ran = mcp.call("exec", json!({"workspace_id": "web", "command": "hostname; echo no >&2; exit 3"}));
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["exit_code"]),
        (&json!("web\n"), &json!("no\n"), &json!(3))
    );
    resources(mcp, made["workspace_id"].as_str().unwrap());
    progress(place, mcp);
    mcp.refused("exec", json!({"workspace_id": "web"})).is("invalid_argument", &["command"]);
    mcp.refused("exec", json!({"workspace_id": "none", "command": "true"}))
        .is("workspace_not_found", &["none"]);
    // Another session sees the same machines and may use none of them.
    let mut other = McpHttp::newest(&place.session("two"), json!({}));
    assert_eq!(other.call("workspace_list", json!({}))["count"], 1);
    other.refused("exec", json!({"workspace_id": "web", "command": "true"})).is("not_owner", &["web"]);
    let read = other.request("resources/read", json!({"uri": "agentiso://workspace/web/file/etc/hostname"}));
    assert_eq!(read["error"]["data"]["code"], "not_owner", "{read}");
    mcp.call("workspace_destroy", json!({"workspace_id": "web"}));
    assert_eq!(
        (mcp.call("workspace_list", json!({}))["count"].clone(), place.machines().len()),
        (json!(0), 0)
    );
}

fn resources(mcp: &mut McpHttp, id: &str) {
    let listed = mcp.request("resources/list", json!({}));
    let uris: Vec<&Value> =
        listed["result"]["resources"].as_array().unwrap().iter().map(|one| &one["uri"]).collect();
    assert_eq!(uris, [&json!("agentiso://workspaces"), &json!(format!("agentiso://workspace/{id}/logs"))]);
    let templates = mcp.request("resources/templates/list", json!({}));
    assert_eq!(templates["result"]["resourceTemplates"].as_array().unwrap().len(), 5);
    let all: Value =
        serde_json::from_str(mcp.read("agentiso://workspaces")["text"].as_str().unwrap()).unwrap();
    assert_eq!(all["workspaces"][0]["workspace_id"], id);

    mcp.call("snapshot", json!({"action": "create", "workspace_id": "web", "name": "clean"}));
    let script = "mkdir -p '/root/a b'; echo text > '/root/a b/ä'; printf '\\0\\377' > /root/bytes";
    mcp.call("exec", json!({"workspace_id": "web", "command": script}));
    assert_eq!(mcp.read("agentiso://workspace/web/file/root/a%20b/%C3%A4")["text"], "text\n");
    assert_eq!(mcp.read(&format!("agentiso://workspace/{id}/file/root/bytes"))["blob"], "AP8=");
    let diff = mcp.read("agentiso://workspace/web/diff/clean");
    assert!(diff["text"].as_str().unwrap().contains("/root/bytes"), "{diff}");
    mcp.call("exec", json!({"workspace_id": "web", "command": "echo a word from inside > /dev/console"}));
    let logs = format!("agentiso://workspace/{id}/logs");
    until(|| mcp.read(&logs)["text"].as_str().unwrap().contains("a word from inside"));

    for (uri, code) in [
        ("agentiso://workspace/web/file/none", Some("file_not_found")),
        ("agentiso://workspace/web/diff/none", Some("snapshot_not_found")),
        ("agentiso://workspace/none/logs", Some("workspace_not_found")),
        ("agentiso://workspace/web/file/root/../../etc/shadow%00", Some("invalid_argument")),
        ("file:///etc/passwd", None),
    ] {
        let answer = mcp.request("resources/read", json!({"uri": uri}));
        assert!(answer["error"]["code"].is_i64() && answer["result"].is_null(), "{uri}: {answer}");
        assert_eq!(answer["error"]["data"]["code"].as_str(), code, "{uri}: {answer}");
    }
}

/// A long call sends progress to a client that asks for it, before the result.
fn progress(place: &Place, mcp: &mut McpHttp) {
    let dir = place.path().join("transfers");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("large"), vec![b'x'; 8 << 20]).unwrap();
    let copy = json!({
        "workspace_id": "web", "direction": "upload", "host_path": dir.join("large"), "guest_path": "/root/large",
    });
    let params = json!({"name": "file_transfer", "arguments": copy, "_meta": {"progressToken": "how far"}});
    let answer = mcp.request("tools/call", params);
    assert_eq!(answer["result"]["structuredContent"]["bytes"], 8 << 20, "{answer}");
    let told: Vec<&Value> = mcp
        .notes
        .iter()
        .filter(|note| note["method"] == "notifications/progress")
        .map(|note| &note["params"])
        .collect();
    assert!(!told.is_empty() && told.iter().all(|one| one["progressToken"] == "how far"), "{told:?}");
    let done: Vec<f64> = told.iter().map(|one| one["progress"].as_f64().unwrap()).collect();
    assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
    assert!(*done.last().unwrap() >= f64::from(8 << 20), "{done:?}");
    mcp.call("file_delete", json!({"workspace_id": "web", "path": "/root/large"}));
    assert!(mcp.notes.is_empty(), "nobody asked: {:?}", mcp.notes);
}

#[test]
fn a_cancelled_or_abandoned_http_call_ends_in_the_guest() {
    let place = Place::new();
    let user = place.http();
    let session = place.session("one");
    let mut older = McpHttp::begin(&session);
    let mut newest = McpHttp::newest(&session, json!({}));
    older.call("workspace_create", json!({"name": "web"}));
    let sleep = |name: &str| {
        let arguments =
            json!({"workspace_id": "web", "command": sleeper::command(name), "timeout_secs": 3600});
        json!({"name": "exec", "arguments": arguments})
    };

    let (id, _listening) = older.send("tools/call", sleep("taken-back"));
    sleeper::runs(&user, "web", "taken-back");
    older.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    sleeper::is_gone(&user, "web", "taken-back");

    let (_, listening) = newest.send("tools/call", sleep("left"));
    sleeper::runs(&user, "web", "left");
    drop(listening);
    sleeper::is_gone(&user, "web", "left");

    for client in [&mut older, &mut newest] {
        assert_eq!(
            client.call("exec", json!({"workspace_id": "web", "command": "echo on"}))["stdout"],
            "on\n"
        );
    }
    were_cancelled(&user, 2);
}

fn were_cancelled(user: &Http, count: usize) {
    let timeline = user.act("timeline", json!({"workspace_id": "web", "limit": 1000}));
    let events = timeline["events"].as_array().unwrap().iter();
    let cancelled = events.filter(|event| event["action"] == "exec" && event["outcome"] == "cancelled");
    assert_eq!(cancelled.count(), count, "{timeline}");
}

#[test]
fn network_clients_with_the_users_token_are_separate_agents() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let place = Place::new();
    let file = place.path().join("token");
    place.configure(&format!("[daemon]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = {file:?}\n"));
    place.run(&["daemon", "start"]);
    let token = fs::read_to_string(&file).unwrap();
    let remote = Http::at_port(port).with("authorization", &format!("Bearer {}", token.trim()));
    let known = remote.clone().with("agentiso-session", "0123456789abcdef");
    let (mut one, mut again) = (McpHttp::begin(&known), McpHttp::newest(&known, json!({})));
    one.call("workspace_create", json!({"name": "far"}));
    let run = json!({"workspace_id": "far", "command": "hostname"});
    assert_eq!(again.call("exec", run.clone())["stdout"], "far\n");
    // It is an agent, not the user: it owns what it creates, and others with the same token cannot use it.
    assert_eq!(one.call("workspace_list", json!({"owned": true}))["count"], 1);
    for mut other in [McpHttp::begin(&remote), McpHttp::newest(&remote, json!({}))] {
        other.refused("workspace_destroy", json!({"workspace_id": "far"})).is("not_owner", &["far"]);
        other.refused("exec", run.clone()).is("not_owner", &["far"]);
    }
    // It has the same session after a restart of the daemon.
    place.kill_daemon();
    place.run(&["daemon", "start"]);
    McpHttp::begin(&remote).refused("exec", run.clone()).is("not_owner", &["far"]);
    let mut later = McpHttp::begin(&known);
    assert_eq!(later.call("exec", run)["stdout"], "far\n");
    later.call("workspace_destroy", json!({"workspace_id": "far"}));
}

#[test]
fn a_protocol_session_cannot_be_used_by_another_client() {
    let place = Place::new();
    let (one, two) = (place.session("one"), place.session("two"));
    let mut mcp = McpHttp::begin(&one);
    mcp.call("workspace_create", json!({"name": "web"}));
    let run = json!({"name": "exec", "arguments": {"workspace_id": "web", "command": "touch /root/stolen"}});
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": run});
    let thief = mcp.http().clone().with("authorization", &format!("Bearer {}", two.token()));
    assert_eq!(thief.request("POST", "/mcp", Some(&call)).status, 404);
    // Nor can it be ended by another client.
    thief.request("DELETE", "/mcp", None);
    let listed = mcp.call("file_list", json!({"workspace_id": "web", "path": "/root"}));
    assert!(!listed.to_string().contains("stolen"), "{listed}");
}
