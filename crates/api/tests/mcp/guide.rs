//! Every call of the workflow guide, as printed there and in the notation of the bundled tools.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{call, connected};
use crate::fake::Fake;

/// The placeholder the guide uses for an id.
const ID: &str = "a1b2c3d4-...";

/// Calls that map directly: a tool, its arguments, and the action.
fn plain() -> Vec<(&'static str, Value, &'static str)> {
    let of = |mut arguments: Value| {
        arguments["workspace_id"] = json!(ID);
        arguments
    };
    vec![
        // Disposable sandbox.
        ("workspace_create", json!({"name": "sandbox-untrusted-script"}), "workspace_create"),
        (
            "file_write",
            of(json!({"path": "/tmp/script.py", "content": "import os\nprint(os.listdir('/'))\n"})),
            "file_write",
        ),
        ("exec", of(json!({"command": "python3 /tmp/script.py", "timeout_secs": 10})), "exec"),
        ("workspace_destroy", of(json!({})), "workspace_destroy"),
        ("workspace_create", json!({"name": "sandbox-with-net", "allow_internet": true}), "workspace_create"),
        ("network_policy", of(json!({"allow_internet": true})), "network_policy"),
        // Checkpoint and rollback.
        ("workspace_create", json!({"name": "dev-loop", "memory_mb": 1024}), "workspace_create"),
        (
            "exec",
            of(
                json!({"command": "apk add nodejs npm && mkdir -p /app && cd /app && npm init -y && npm install express",
                "timeout_secs": 120}),
            ),
            "exec",
        ),
        ("snapshot_create", of(json!({"name": "after-npm-install"})), "snapshot_create"),
        (
            "file_write",
            of(json!({"path": "/app/index.js", "content": "const express = require('express');\n"})),
            "file_write",
        ),
        (
            "exec",
            of(
                json!({"command": "cd /app && node -e \"require('./index.js')\" 2>&1 || true", "timeout_secs": 5}),
            ),
            "exec",
        ),
        ("snapshot_restore", of(json!({"snapshot_name": "after-npm-install"})), "snapshot_restore"),
        ("snapshot_create", of(json!({"name": "v2-working"})), "snapshot_create"),
        // Parallel hypotheses.
        ("workspace_create", json!({"name": "hypothesis-base"}), "workspace_create"),
        (
            "exec",
            of(json!({"command": "apk add python3 py3-pip && pip install pytest", "timeout_secs": 60})),
            "exec",
        ),
        (
            "file_write",
            of(json!({"path": "/app/problem.py", "content": "def solve(data):\n    pass\n"})),
            "file_write",
        ),
        ("snapshot_create", of(json!({"name": "base-ready"})), "snapshot_create"),
        (
            "workspace_fork",
            of(json!({"snapshot_name": "base-ready", "new_name": "approach-sorting"})),
            "workspace_fork",
        ),
        (
            "workspace_fork",
            of(json!({"snapshot_name": "base-ready", "new_name": "approach-hashmap"})),
            "workspace_fork",
        ),
        (
            "workspace_fork",
            of(json!({"snapshot_name": "base-ready", "new_name": "approach-dp"})),
            "workspace_fork",
        ),
        ("workspace_destroy", json!({"workspace_id": "<losing-fork-1>"}), "workspace_destroy"),
        // A persistent build environment.
        (
            "workspace_create",
            json!({"name": "rust-dev-env", "memory_mb": 2048, "disk_gb": 20}),
            "workspace_create",
        ),
        ("exec", of(json!({"command": "apk add build-base curl", "timeout_secs": 300})), "exec"),
        ("snapshot_create", of(json!({"name": "toolchain-installed"})), "snapshot_create"),
        ("workspace_list", json!({}), "workspace_list"),
        ("workspace_start", of(json!({})), "workspace_start"),
        (
            "exec",
            of(json!({"command": "source $HOME/.cargo/env && cargo build --release", "workdir": "/app",
                "timeout_secs": 120})),
            "exec",
        ),
        // Editing.
        ("file_read", of(json!({"path": "/app/config.py"})), "file_read"),
        (
            "file_edit",
            of(
                json!({"path": "/app/config.py", "old_string": "DEBUG = True", "new_string": "DEBUG = False"}),
            ),
            "file_edit",
        ),
        (
            "file_write",
            of(json!({"path": "/app/config.py", "content": "DEBUG = False\n", "mode": "0644"})),
            "file_write",
        ),
        ("file_list", of(json!({"path": "/app"})), "file_list"),
        // Background jobs.
        (
            "exec_background",
            of(json!({"command": "cd /app && cargo build --release 2>&1", "workdir": "/app"})),
            "exec_start",
        ),
        ("exec_poll", of(json!({"job_id": 1})), "exec_poll"),
        // Ports.
        ("port_forward", of(json!({"guest_port": 8080})), "port_forward_add"),
        ("port_forward", of(json!({"guest_port": 8080, "host_port": 9090})), "port_forward_add"),
        ("port_forward_remove", of(json!({"guest_port": 8080})), "port_forward_remove"),
        // Git.
        ("workspace_create", json!({"name": "git-work", "allow_internet": true}), "workspace_create"),
        (
            "git_clone",
            of(json!({"url": "https://github.com/user/repo.git", "path": "/workspace/repo"})),
            "git_clone",
        ),
        (
            "file_edit",
            of(json!({"path": "/workspace/repo/README.md", "old_string": "# Old Title",
                "new_string": "# New Title"})),
            "file_edit",
        ),
        ("workspace_git_status", of(json!({"path": "/workspace/repo"})), "git_status"),
        (
            "exec",
            of(
                json!({"command": "cd /workspace/repo && git add -A && git commit -m 'Update title' && git push",
                "timeout_secs": 30}),
            ),
            "exec",
        ),
        // Snapshot sizes.
        ("snapshot_list", of(json!({})), "snapshot_list"),
        ("snapshot_diff", of(json!({"snapshot_name": "after-install"})), "snapshot_diff"),
        // Other tools that the guide's tables mention.
        ("workspace_stop", of(json!({})), "workspace_stop"),
        ("workspace_list", json!({"state_filter": "running"}), "workspace_list"),
        ("workspace_info", of(json!({})), "workspace_info"),
        ("exec", of(json!({"command": "env", "env": {"A": "1"}, "max_output_bytes": 1024})), "exec"),
        ("exec_background", of(json!({"command": "env", "env": {"A": "1"}})), "exec_start"),
        ("exec_kill", of(json!({"job_id": 1, "signal": 15})), "exec_kill"),
        ("file_read", of(json!({"path": "/a", "offset": 10, "limit": 20})), "file_read"),
        ("snapshot_create", of(json!({"name": "warm", "include_memory": true})), "snapshot_create"),
        ("snapshot_delete", of(json!({"snapshot_name": "warm"})), "snapshot_delete"),
        ("workspace_ip", of(json!({})), "workspace_ip"),
        (
            "network_policy",
            of(json!({"allow_internet": false, "allow_inter_vm": false, "allowed_ports": [80]})),
            "network_policy",
        ),
        ("set_env", of(json!({"vars": {"GIT_ASKPASS": "/bin/true"}})), "set_env"),
    ]
}

/// Calls whose action has other or additional arguments.
fn translated() -> Vec<(&'static str, Value, &'static str, Value)> {
    let upload = json!({"workspace_id": ID, "host_path": "/var/lib/agentiso/transfers/dataset.csv",
        "guest_path": "/app/data/dataset.csv"});
    let download = json!({"workspace_id": ID, "guest_path": "/app/output/results.json",
        "host_path": "/var/lib/agentiso/transfers/results.json"});
    let with = |mut arguments: Value, name: &str, value: Value| {
        arguments[name] = value;
        arguments
    };
    let id = || json!({"workspace_id": ID});
    let job = || json!({"workspace_id": ID, "job_id": 1});
    let start = || json!({"workspace_id": ID, "command": "make"});
    let snapshot = || json!({"workspace_id": ID, "snapshot_name": "golden"});
    let bundled = |action: &str, arguments: Value| with(arguments, "action", json!(action));
    let named = |action: &str| json!({"workspace_id": ID, "action": action, "name": "golden"});
    let port = || json!({"workspace_id": ID, "guest_port": 8080});
    vec![
        ("file_upload", upload.clone(), "file_transfer", with(upload.clone(), "direction", json!("upload"))),
        ("file_download", download.clone(), "file_transfer", with(download, "direction", json!("download"))),
        (
            "file_transfer",
            with(upload.clone(), "direction", json!("upload")),
            "file_transfer",
            with(upload, "direction", json!("upload")),
        ),
        ("exec_background", bundled("start", start()), "exec_start", start()),
        ("exec_background", bundled("poll", job()), "exec_poll", job()),
        ("exec_background", bundled("wait", job()), "exec_poll", with(job(), "wait", json!("exit"))),
        ("exec_background", bundled("kill", job()), "exec_kill", job()),
        ("exec_background", bundled("list", id()), "exec_list", id()),
        (
            "exec_background",
            bundled("write", with(job(), "data", json!("yes\n"))),
            "exec_write",
            with(job(), "data", json!("yes\n")),
        ),
        ("snapshot", named("create"), "snapshot_create", json!({"workspace_id": ID, "name": "golden"})),
        ("snapshot", named("restore"), "snapshot_restore", snapshot()),
        ("snapshot", named("delete"), "snapshot_delete", snapshot()),
        ("snapshot", named("diff"), "snapshot_diff", snapshot()),
        ("snapshot", bundled("restore", snapshot()), "snapshot_restore", snapshot()),
        ("snapshot", bundled("list", id()), "snapshot_list", id()),
        ("port_forward", bundled("add", port()), "port_forward_add", port()),
        ("port_forward", bundled("remove", port()), "port_forward_remove", port()),
        ("port_forward", bundled("list", id()), "port_forward_list", id()),
        ("workspace_adopt_all", json!({}), "workspace_adopt", json!({})),
        (
            "workspace_batch_fork",
            with(id(), "count", json!(3)),
            "workspace_fork",
            json!({"workspace_id": ID, "count": 3, "snapshot_name": "golden", "name_prefix": "worker"}),
        ),
    ]
}

#[tokio::test]
async fn every_call_of_the_guide_maps_to_its_action() {
    let fake = Fake::default();
    let client = connected(fake.clone()).await;
    let plain =
        plain().into_iter().map(|(tool, arguments, action)| (tool, arguments.clone(), action, arguments));
    for (tool, arguments, action, expected) in plain.chain(translated()) {
        let result = client.call_tool(call(tool, arguments.clone())).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{tool} {arguments}: {:?}", result.content);
        assert!(result.structured_content.is_some(), "{tool}");
        let mut calls = fake.calls();
        for (_, given) in &mut calls {
            // Default limits on size and time are added to calls without them.
            for field in ["max_output_bytes", "max_bytes", "background_after_secs"] {
                if expected.get(field).is_none() {
                    given.as_object_mut().unwrap().remove(field);
                }
            }
        }
        assert_eq!(calls, [(action, expected)], "{tool} {arguments}");
    }
}

#[tokio::test]
async fn every_call_in_the_guide_page_is_accepted() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    let text = fs::read_to_string(page).unwrap();
    let fake = Fake::default();
    let client = connected(fake.clone()).await;
    let calls: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with(r#"{"tool""#))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(calls.len() > 10, "only {} calls were found", calls.len());
    for shown in calls {
        let tool = shown["tool"].as_str().unwrap();
        let result = client.call_tool(call(tool, shown["arguments"].clone())).await.unwrap();
        assert_eq!(result.is_error, Some(false), "{shown}: {:?}", result.content);
        assert_eq!(fake.calls().len(), 1, "{shown}");
    }
}
