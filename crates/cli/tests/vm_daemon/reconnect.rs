//! Reconnecting to a workspace with only the core tools, and cancelled creates.

use serde_json::json;

use crate::place::{Place, until};

#[test]
fn a_client_with_the_core_tools_can_continue_with_its_workspace() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let user = place.http();
    let mut mcp = place.mcp(&["--tools", "core"]);
    let made = mcp.call("workspace_create", json!({"name": "web", "idempotency_key": "one"}));
    let id = made["workspace_id"].as_str().unwrap().to_owned();
    mcp.call("file_write", json!({"workspace_id": "web", "path": "/root/file", "content": "kept"}));
    mcp.refused("workspace_create", json!({"name": "web"}))
        .is("workspace_exists", &[&id, "running", "go on"]);

    user.act("workspace_stop", json!({"workspace_id": "web"}));
    mcp.refused("workspace_create", json!({"name": "web"}))
        .is("workspace_exists", &[&id, "stopped", "starts"]);
    assert_eq!(mcp.sh("web", "cat /root/file"), "kept");

    user.act("workspace_suspend", json!({"workspace_id": "web"}));
    let read = mcp.call("file_read", json!({"workspace_id": "web", "path": "/root/file"}));
    assert_eq!(read["content"], "kept");

    mcp.call("workspace_destroy", json!({"workspace_id": "web"}));
    mcp.refused("workspace_create", json!({"name": "web", "idempotency_key": "one"}))
        .is("workspace_not_found", &[&id, "no longer exists", "new key"]);
}

#[test]
fn a_cancelled_create_is_rolled_back() {
    let place = Place::new();
    let user = place.http();
    let mut mcp = place.mcp(&[]);
    let create = json!({"name": "workspace_create", "arguments": {"name": "web", "cold": true}});
    let id = mcp.send("tools/call", create);
    // QEMU runs long before a cold boot has finished.
    until(|| !place.machines().is_empty());
    let word = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    mcp.write(&word.to_string());
    // Its machine ends before the workspace is removed.
    until(|| place.machines().is_empty() && user.names().is_empty());
}
