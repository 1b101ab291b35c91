//! Coming back to a workspace with the core tools alone, and creates that nobody waits for.

use serde_json::json;

use crate::place::{Place, until};

#[test]
fn a_client_with_the_core_tools_goes_on_with_what_it_has() {
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
        .is("workspace_not_found", &[&id, "gone", "new key"]);
}

#[test]
fn a_create_that_its_client_takes_back_is_undone() {
    let place = Place::new();
    let user = place.http();
    let mut mcp = place.mcp(&[]);
    let create = json!({"name": "workspace_create", "arguments": {"name": "web", "cold": true}});
    let id = mcp.send("tools/call", create);
    // QEMU runs long before a cold boot is over.
    until(|| !place.machines().is_empty());
    let word = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    mcp.write(&word.to_string());
    // Its machine ends before the workspace is forgotten.
    until(|| place.machines().is_empty() && user.names().is_empty());
}
