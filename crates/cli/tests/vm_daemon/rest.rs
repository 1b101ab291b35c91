//! The REST interface: over the socket, and over the network with a token.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::http::{Http, Reply};
use crate::place::Place;

fn ok(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()
}

#[test]
fn every_kind_of_route_works_and_errors_have_the_right_status() {
    let place = Place::new();
    let user = place.http();
    let get = |path: &str| ok(&user.request("GET", path, None));
    let send = |method: &str, path: &str, body: Value| ok(&user.request(method, path, Some(&body)));

    let made = send("POST", "/v1/workspaces", json!({"name": "web", "labels": {"team": "a"}}));
    let id = made["workspace_id"].as_str().unwrap();
    assert_eq!(get("/v1/workspaces")["count"], 1);
    assert_eq!(get("/v1/workspaces?state_filter=stopped")["count"], 0);
    assert_eq!(get(&format!("/v1/workspaces/{id}"))["labels"], json!({"team": "a"}));
    let updated = send("PATCH", "/v1/workspaces/web", json!({"labels": {"team": null, "role": "b"}}));
    assert_eq!(updated["labels"], json!({"role": "b"}));
    assert_eq!(send("POST", "/v1/workspaces/web/exec", json!({"command": "exit 3"}))["exit_code"], 3);
    send("PUT", "/v1/workspaces/web/env", json!({"vars": {"WORD": "x"}}));
    assert_eq!(send("POST", "/v1/workspaces/web/exec", json!({"command": "echo $WORD"}))["stdout"], "x\n");
    send("PUT", "/v1/workspaces/web/files/content", json!({"path": "/d/a b&c", "content": "one\ntwo\n"}));
    let lines = get("/v1/workspaces/web/files/content?path=%2Fd%2Fa%20b%26c&start_line=2");
    assert_eq!(lines["content"], "two\n");
    assert_eq!(get("/v1/workspaces/web/files/list?path=/d")["total"], 1);
    assert_eq!(get("/v1/workspaces/web/files/stat?path=/none")["exists"], false);
    assert_eq!(
        get("/v1/workspaces/web/files/grep?path=/d&pattern=TWO&ignore_case=true")["matches"][0]["line_number"],
        2
    );
    ok(&user.request("DELETE", "/v1/workspaces/web/files?path=/d&recursive=true", None));
    assert_eq!(get("/v1/workspaces/web/files/stat?path=/d")["exists"], false);
    send("POST", "/v1/workspaces/web/snapshots", json!({"name": "s.1"}));
    assert_eq!(get("/v1/workspaces/web/snapshots")["snapshots"][0]["name"], "s.1");
    assert_eq!(get("/v1/workspaces/web/snapshots/s.1/diff")["truncated"], false);
    ok(&user.request("DELETE", "/v1/workspaces/web/snapshots/s.1", None));
    let forward = send("POST", "/v1/workspaces/web/forwards", json!({"guest_port": 80}));
    assert_eq!(get("/v1/workspaces/web/forwards")["forwards"][0]["host_port"], forward["host_port"]);
    ok(&user.request("DELETE", "/v1/workspaces/web/forwards/80", None));
    assert_eq!(send("POST", "/v1/workspaces/web/rename", json!({"new_name": "site"}))["name"], "site");
    assert_eq!(get("/v1/workspaces/site/ip")["ip"], Value::Null);
    assert!(get("/v1/workspaces/site/logs?log_type=console")["console"].is_string());
    assert_eq!(get("/v1/workspaces/site/timeline?limit=1")["events"].as_array().unwrap().len(), 1);
    assert_eq!(get("/v1/status")["workspaces"]["running"], 1);
    assert_eq!(get("/healthz")["status"], "ok");
    let metrics = user.request("GET", "/metrics", None);
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    for line in [
        "agentiso_workspaces{state=\"running\"} 1",
        "agentiso_actions_total{action=\"exec\",outcome=\"ok\"} 2",
    ] {
        assert!(metrics.body.lines().any(|found| found == line), "{line} is not in {}", metrics.body);
    }
    assert!(get("/v1/openapi.json")["paths"]["/v1/workspaces/{workspace_id}/exec"]["post"].is_object());

    errors(&place, &user);
    ok(&user.request("DELETE", "/v1/workspaces/site", None));
    assert_eq!(get("/v1/workspaces")["count"], 0);
}

fn errors(place: &Place, user: &Http) {
    let agent = place.session("agent");
    user.request("GET", "/v1/workspaces/none", None).is_refusal(404, "workspace_not_found");
    user.request("POST", "/v1/workspaces", Some(&json!({"name": "site"})))
        .is_refusal(409, "workspace_exists");
    user.request("POST", "/v1/workspaces", Some(&json!({"nam": "x"}))).is_refusal(400, "invalid_argument");
    user.request("POST", "/v1/workspaces", Some(&json!({"network": {"allow_cidrs": ["10.0.0.1/8"]}})))
        .is_refusal(400, "invalid_argument");
    user.request("GET", "/v1/workspaces/site/jobs/7", None).is_refusal(404, "job_not_found");
    user.request("GET", "/v1/workspaces/site/files/content?path=/none", None)
        .is_refusal(404, "file_not_found");
    user.request("GET", "/v1/workspaces/site/snapshots/none/diff", None)
        .is_refusal(404, "snapshot_not_found");
    agent.request("POST", "/v1/sessions", Some(&json!({"client": "x"}))).is_refusal(403, "permission_denied");
    agent.request("POST", "/v1/shutdown", None).is_refusal(403, "permission_denied");
    user.clone()
        .with("authorization", "Bearer none")
        .request("GET", "/v1/status", None)
        .is_refusal(401, "unauthorized");
    agent.act("workspace_adopt", json!({}));
    let other = place.session("other");
    other.request("DELETE", "/v1/workspaces/site", None).is_refusal(403, "not_owner");
    // Every invalid request gets an error in our format.
    for (method, path, body) in [
        ("POST", "/v1/workspaces", "{"),
        ("POST", "/v1/workspaces", "[]"),
        ("POST", "/v1/workspaces", "{\"name\": \"a\", \"name\": 5}"),
        ("POST", "/v1/workspaces", "\u{0}"),
        ("POST", "/v1/sessions", "{"),
        ("POST", "/v1/sessions", "{}"),
        ("POST", "/v1/sessions", "{\"client\": 5}"),
        ("POST", "/v1/sessions", ""),
        ("POST", "/v1/actions/no_such_action", "{}"),
        ("POST", "/v1/actions/exec", "{\"workspace_id\": 5}"),
        ("GET", "/v1/workspaces/site/jobs/seven", ""),
        ("GET", "/v1/workspaces/site/jobs/-1", ""),
        ("GET", "/v1/workspaces/site/jobs/seven/stream", ""),
        ("GET", "/v1/workspaces/site/jobs/99999999999999999999", ""),
        ("GET", "/v1/workspaces/%FF/jobs", ""),
        ("GET", "/v1/timeline?limit=many", ""),
        ("GET", "/v1/workspaces?nonsense=1", ""),
        ("GET", "/v1/workspaces/site/exec/stream", ""),
    ] {
        let reply = user.send(method, path, body);
        reply.is_refusal(400, "invalid_argument");
    }
    assert_eq!(user.send("GET", "/v1/nonsense", "").status, 404);
    assert_eq!(user.send("PUT", "/v1/workspaces", "{}").status, 405);
    assert_eq!(user.names(), ["site"]);
}

#[test]
fn progress_changes_and_output_are_sent_as_events() {
    let place = Place::new();
    let user = place.http();
    let mut changes = user.events("GET", "/v1/events", None);
    // The stream is open once its headers have arrived.
    changes.wait_for_head();
    user.act("workspace_create", json!({"name": "web"}));
    let file = place.path().join("file");
    fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
    let copy = json!({"direction": "upload", "host_path": file, "guest_path": "/file"});
    let mut copying = user.events("POST", "/v1/workspaces/web/files/transfer", Some(&copy));
    let (first, step) = copying.next().unwrap();
    assert_eq!((first.as_str(), &step["total"]), ("progress", &json!(1 << 20)), "{step}");
    assert!(copying.wait_for("progress")["advance"].as_u64().unwrap() > 0);
    assert_eq!(copying.wait_for("result")["bytes"], 1 << 20);
    assert!(copying.next().is_none(), "nothing follows a result");
    let mut failing = user.events("POST", "/v1/workspaces", Some(&json!({"name": "web"})));
    assert_eq!(failing.wait_for("error")["error"]["code"], "workspace_exists");

    let job = user.act(
        "exec_start",
        json!({"workspace_id": "web", "command": "echo one; read x; echo $x >&2; exit 4", "stdin": true}),
    );
    let mut output = user.events("GET", &format!("/v1/workspaces/web/jobs/{}/stream", job["job_id"]), None);
    assert_eq!(output.wait_for("output"), json!({"stdout": "one\n", "stderr": ""}));
    user.act("exec_write", json!({"workspace_id": "web", "job_id": job["job_id"], "data": "two\n"}));
    assert_eq!(output.wait_for("output"), json!({"stdout": "", "stderr": "two\n"}));
    assert_eq!(output.wait_for("exit"), json!({"exit_code": 4}));
    let mut none = user.events("GET", "/v1/workspaces/web/jobs/77/stream", None);
    assert_eq!(none.wait_for("error")["error"]["code"], "job_not_found");

    user.act("snapshot_create", json!({"workspace_id": "web", "name": "s"}));
    user.act("workspace_stop", json!({"workspace_id": "web", "force": true}));
    user.act("workspace_start", json!({"workspace_id": "web"}));
    let pid = user.act("workspace_info", json!({"workspace_id": "web"}))["pid"].as_u64().unwrap();
    crate::place::kill(u32::try_from(pid).unwrap());
    let told = ["created", "snapshot", "stopped", "started", "crashed"].map(|kind| {
        let (found, data) = changes.next().unwrap();
        assert_eq!((found.as_str(), &data["name"]), (kind, &json!("web")), "{data}");
        data
    });
    assert!(told[4]["note"].as_str().unwrap().contains("unexpectedly"), "{told:?}");
    assert_eq!(user.act("workspace_info", json!({"workspace_id": "web"}))["state"], "stopped");
    user.act("workspace_destroy", json!({"workspace_id": "web"}));
    assert_eq!(changes.next().unwrap().0, "destroyed");
    // An event stream does not keep the daemon from stopping, and is closed.
    place.run(&["daemon", "stop"]);
    assert!(changes.next().is_none());
}

#[test]
fn network_requests_require_the_token() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (network, metrics) = (free(), free());
    let [port, metrics_port] = [&network, &metrics].map(|one| one.local_addr().unwrap().port());
    drop((network, metrics));
    let place = Place::configured(&format!("[daemon]\nlisten = \"127.0.0.1:{port}\"\n"));
    let refused = place.command(&["daemon", "start"]).output().unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("token_file"));

    let file = place.path().join("token");
    place.configure(&format!(
        "[daemon]\nlisten = \"127.0.0.1:{port}\"\ntoken_file = {file:?}\nmetrics_port = {metrics_port}\n"
    ));
    let user = place.http();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    let nobody = Http::at_port(port);
    let bearer = |token: &str| nobody.clone().with("authorization", &format!("Bearer {token}"));
    for path in ["/v1/status", "/v1/workspaces", "/v1/events", "/metrics", "/mcp", "/v1/openapi.json"] {
        nobody.request("GET", path, None).is_refusal(401, "unauthorized").is("unauthorized", &["token"]);
        bearer("wrong").request("GET", path, None).is_refusal(401, "unauthorized");
        bearer("").request("GET", path, None).is_refusal(401, "unauthorized");
        bearer(&token[1..]).request("GET", path, None).is_refusal(401, "unauthorized");
    }
    nobody
        .clone()
        .with("authorization", &format!("Basic {token}"))
        .request("GET", "/v1/status", None)
        .is_refusal(401, "unauthorized");
    nobody.request("POST", "/v1/shutdown", None).is_refusal(401, "unauthorized");
    let remote = bearer(&token);
    assert_eq!(ok(&remote.request("GET", "/v1/status", None))["pid"], place.daemon().unwrap());
    let session = remote.begin_session("far");
    assert_eq!(ok(&session.request("GET", "/v1/workspaces", None))["count"], 0);
    session.request("POST", "/v1/shutdown", None).is_refusal(403, "permission_denied");

    // A foreign web page uses another host name or origin.
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example"] {
        remote
            .clone()
            .with("host", host)
            .request("GET", "/v1/status", None)
            .is_refusal(403, "permission_denied");
        assert_eq!(remote.clone().with("host", host).request("POST", "/mcp", Some(&hello())).status, 403);
    }
    for origin in ["http://evil.example", "null", "https://127.0.0.1.evil.example"] {
        remote
            .clone()
            .with("origin", origin)
            .request("GET", "/v1/status", None)
            .is_refusal(403, "permission_denied");
    }
    ok(&remote.clone().with("origin", "http://localhost:3000").request("GET", "/v1/status", None));

    let mcp = remote.clone().with("accept", "application/json, text/event-stream").request(
        "POST",
        "/mcp",
        Some(&hello()),
    );
    assert_eq!(mcp.status, 200, "{}", mcp.body);
    assert!(mcp.body.contains("\"agentiso\""), "{}", mcp.body);
    // The metrics port serves nothing else.
    let watcher = Http::at_port(metrics_port);
    assert_eq!(ok(&watcher.request("GET", "/healthz", None))["status"], "ok");
    assert!(watcher.request("GET", "/metrics", None).body.contains("agentiso_uptime_seconds"));
    assert_eq!(watcher.request("GET", "/v1/status", None).status, 404);
    assert_eq!(ok(&user.request("GET", "/v1/status", None))["pid"], place.daemon().unwrap());
}

fn hello() -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}
