//! Image management by an agent.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::place::Place;

#[test]
fn an_agent_with_permission_can_manage_images() {
    let place = Place::without_images("[images]\nagents = \"manage\"\n");
    let transfers = place.path().join("transfers");
    fs::create_dir_all(&transfers).unwrap();
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("bin")).unwrap();
    fs::copy("/bin/busybox", tree.path().join("bin/busybox")).unwrap();
    std::os::unix::fs::symlink("busybox", tree.path().join("bin/sh")).unwrap();
    let archive = transfers.join("tiny.tar");
    let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(tree.path()).arg(".").status();
    assert!(packed.unwrap().success());

    let mut agent = place.mcp(&["--tools", "full"]);
    let made = agent.call("image", json!({"action": "import", "host_path": archive}));
    assert_eq!((&made["name"], &made["source"]), (&json!("tiny"), &json!(archive)));
    let create = json!({"name": "web", "base_image": "tiny", "disk_gb": 1});
    agent.call("workspace_create", create);
    agent.call("exec", json!({"workspace_id": "web", "command": "echo mine > /file"}));
    agent.refused("image", json!({"action": "remove", "name": "tiny"})).is("image_in_use", &["web"]);
    agent.call("image", json!({"action": "commit", "workspace_id": "web", "name": "ready"}));
    let shown = agent.call("image", json!({"action": "info", "name": "ready"}));
    assert_eq!((&shown["source_kind"], &shown["source"]), (&json!("workspace"), &json!("workspace web")));
    agent.call("workspace_create", json!({"name": "copy", "base_image": "ready", "disk_gb": 1}));
    let said = agent.call("exec", json!({"workspace_id": "copy", "command": "busybox cat /file"}));
    assert_eq!(said["stdout"], "mine\n");
    let written =
        agent.call("workspace_export", json!({"workspace_id": "copy", "host_path": transfers.join("copy")}));
    let path = written["host_path"].as_str().unwrap();
    assert!(path.starts_with(transfers.join("sessions").to_str().unwrap()), "{path}");

    for name in ["web", "copy"] {
        agent.call("workspace_destroy", json!({"workspace_id": name}));
    }
    let imported = json!({"host_path": transfers.join("copy"), "name": "again"});
    let imported = agent.call("workspace_import", imported);
    assert_eq!(
        (&imported["base_image"], &imported["resources"]["disk_gb"]),
        (&json!("again-import"), &json!(1))
    );
    let said = agent.call("exec", json!({"workspace_id": "again", "command": "busybox cat /file"}));
    assert_eq!(said["stdout"], "mine\n");
    agent.call("workspace_destroy", json!({"workspace_id": "again"}));
    for name in ["tiny", "ready", "again-import"] {
        agent.call("image", json!({"action": "remove", "name": name}));
    }
    assert_eq!(agent.call("image", json!({"action": "list"}))["images"], json!([]));
}
