//! The patterns of the workflow guide from end to end, each call as printed: once with the flat tool names, once with
//! the bundled ones.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

use crate::mcp::Mcp;
use crate::place::Place;
use crate::refusal::Refusal;

#[test]
fn every_pattern_of_the_guide_works_with_flat_names() {
    Guide::new(false).follow();
}

#[test]
fn every_pattern_of_the_guide_works_with_bundled_names() {
    Guide::new(true).follow();
}

/// An agent that follows the guide.
struct Guide {
    // Dropped before `place`.
    mcp: Mcp,
    place: Place,
    bundled: bool,
}

impl Guide {
    fn new(bundled: bool) -> Self {
        let place = Place::new();
        Self { mcp: place.mcp(&[]), place, bundled }
    }

    fn follow(mut self) {
        self.disposable_sandbox();
        self.checkpoint_and_rollback();
        self.parallel_hypotheses();
        let kept = self.persistent_environment();
        self.file_editing(&kept);
        self.background_execution(&kept);
        self.port_forwarding(&kept);
        self.file_transfer(&kept);
        self.git_workflow();
        self.snapshot_sizes(&kept);
        self.destroy(&kept);
        assert_eq!(self.call("workspace_list", json!({}))["count"], 0);
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let (tool, arguments) = self.in_its_words(tool, arguments);
        self.mcp.call(tool, arguments)
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> Refusal {
        let (tool, arguments) = self.in_its_words(tool, arguments);
        self.mcp.refused(tool, arguments)
    }

    /// A call of the guide, in the notation of the bundled tools if selected.
    fn in_its_words<'a>(&self, tool: &'a str, mut arguments: Value) -> (&'a str, Value) {
        if !self.bundled {
            return (tool, arguments);
        }
        let (tool, word) = match tool {
            "snapshot_create" => ("snapshot", ("action", "create")),
            "snapshot_restore" => ("snapshot", ("action", "restore")),
            "snapshot_list" => ("snapshot", ("action", "list")),
            "snapshot_diff" => ("snapshot", ("action", "diff")),
            "snapshot_delete" => ("snapshot", ("action", "delete")),
            "exec_background" => ("exec_background", ("action", "start")),
            "exec_poll" => ("exec_background", ("action", "poll")),
            "port_forward" => ("port_forward", ("action", "add")),
            "port_forward_remove" => ("port_forward", ("action", "remove")),
            "file_upload" => ("file_transfer", ("direction", "upload")),
            "file_download" => ("file_transfer", ("direction", "download")),
            "workspace_git_status" => return ("git_status", arguments),
            _ => return (tool, arguments),
        };
        arguments[word.0] = json!(word.1);
        if tool == "snapshot"
            && let Some(name) = arguments.as_object_mut().and_then(|fields| fields.remove("snapshot_name"))
        {
            arguments["name"] = name;
        }
        (tool, arguments)
    }

    fn create(&mut self, arguments: Value) -> String {
        let made = self.call("workspace_create", arguments);
        let id = made["workspace_id"].as_str().unwrap();
        assert!(id.len() == 36 && id.bytes().filter(|&byte| byte == b'-').count() == 4, "no UUID: {id}");
        assert_eq!((&made["state"], &made["ip"]), (&json!("running"), &Value::Null));
        id.to_owned()
    }

    fn destroy(&mut self, id: &str) {
        assert_eq!(self.call("workspace_destroy", json!({"workspace_id": id}))["destroyed"], true);
        self.refused("workspace_info", json!({"workspace_id": id})).is("workspace_not_found", &[]);
    }

    /// Pattern 1.
    fn disposable_sandbox(&mut self) {
        let id = self.create(json!({"name": "sandbox-untrusted-script"}));
        let content = "import os\nprint(os.listdir('/'))\n";
        self.call("file_write", json!({"workspace_id": id, "path": "/tmp/script.py", "content": content}));
        let ran = self.call(
            "exec",
            json!({"workspace_id": id, "command": "python3 /tmp/script.py", "timeout_secs": 10}),
        );
        assert_eq!((&ran["exit_code"], &ran["stderr"]), (&json!(0), &json!("")), "{ran}");
        assert!(ran["stdout"].as_str().unwrap().contains("'tmp'"), "{ran}");
        // Rules that are wrong change nothing; rules that are right apply to the running workspace.
        let wrong = json!({"workspace_id": id, "allow_internet": true, "allow_domains": ["https://x.test"]});
        self.refused("network_policy", wrong).is("invalid_argument", &["allow_domains[0]"]);
        let info = self.call("workspace_info", json!({"workspace_id": id}));
        assert_eq!(info["network"]["allow_internet"], false);
        assert_eq!(self.call("workspace_ip", json!({"workspace_id": id}))["ip"], Value::Null);
        let allow = json!({"workspace_id": id, "allow_internet": true, "allow_domains": ["x.test"]});
        let policy = self.call("network_policy", allow);
        assert_eq!(policy["network_policy"]["allow_domains"], json!(["x.test"]));
        assert_eq!(self.call("workspace_ip", json!({"workspace_id": id}))["ip"], policy["ip"]);
        let policy = self.call("network_policy", json!({"workspace_id": id, "preset": "off"}));
        assert_eq!(policy["network_policy"]["allow_internet"], false);
        assert_eq!(self.call("workspace_ip", json!({"workspace_id": id}))["ip"], Value::Null);
        self.destroy(&id);
    }

    /// Pattern 2.
    fn checkpoint_and_rollback(&mut self) {
        let id = self.create(json!({"name": "dev-loop", "memory_mb": 1024}));
        let install = "apk add nodejs npm && mkdir -p /app && cd /app && npm init -y && npm install express";
        let ran = self.call("exec", json!({"workspace_id": id, "command": install, "timeout_secs": 120}));
        assert_eq!(ran["exit_code"], 127, "another distribution's packages: {ran}");
        let taken = self.call("snapshot_create", json!({"workspace_id": id, "name": "after-npm-install"}));
        assert_eq!((&taken["name"], &taken["has_memory"]), (&json!("after-npm-install"), &json!(false)));
        assert!(taken["snapshot_id"].is_string() && taken["created_at"].is_string(), "{taken}");
        let content = "const express = require('express');\nconst app = express();\napp.listen(3000);\n";
        self.call("file_write", json!({"workspace_id": id, "path": "/app/index.js", "content": content}));
        let test = "cd /app && node -e \"require('./index.js')\" 2>&1 || true";
        let ran = self.call("exec", json!({"workspace_id": id, "command": test, "timeout_secs": 5}));
        assert_eq!(ran["exit_code"], 0, "{ran}");
        let back =
            self.call("snapshot_restore", json!({"workspace_id": id, "snapshot_name": "after-npm-install"}));
        assert_eq!(
            (&back["snapshot_name"], &back["state"]),
            (&json!("after-npm-install"), &json!("running"))
        );
        let gone = json!({"workspace_id": id, "path": "/app/index.js"});
        self.refused("file_read", gone).is("file_not_found", &["/app/index.js"]);
        self.call("snapshot_create", json!({"workspace_id": id, "name": "v2-working"}));
        let blank = json!({"workspace_id": id, "name": "no blanks"});
        self.refused("snapshot_create", blank).is("invalid_argument", &[]);
        self.destroy(&id);
    }

    /// Pattern 3.
    fn parallel_hypotheses(&mut self) {
        let id = self.create(json!({"name": "hypothesis-base"}));
        let content = "def solve(data):\n    pass  # TODO\n";
        self.call("file_write", json!({"workspace_id": id, "path": "/app/problem.py", "content": content}));
        self.call("snapshot_create", json!({"workspace_id": id, "name": "base-ready"}));
        let mut forks = Vec::new();
        for name in ["approach-sorting", "approach-hashmap", "approach-dp"] {
            let asked = json!({"workspace_id": id, "snapshot_name": "base-ready", "new_name": name});
            let fork = self.call("workspace_fork", asked);
            assert_eq!((&fork["name"], &fork["state"]), (&json!(name), &json!("running")));
            let from = &fork["forked_from"];
            assert_eq!(from["source_workspace_id"], id);
            assert_eq!(from["source_workspace_name"], "hypothesis-base");
            assert_eq!(from["snapshot_name"], "base-ready");
            forks.push(fork["workspace_id"].as_str().unwrap().to_owned());
        }
        self.mcp.sh(&forks[0], "echo sorting > /app/approach");
        let read = self.call("file_read", json!({"workspace_id": forks[1], "path": "/app/problem.py"}));
        assert_eq!(read["content"], content);
        let other = json!({"workspace_id": forks[1], "path": "/app/approach"});
        self.refused("file_read", other).is("file_not_found", &[]);
        let info = self.call("workspace_info", json!({"workspace_id": forks[2]}));
        assert_eq!(info["forked_from"]["snapshot_name"], "base-ready");
        let needed = json!({"workspace_id": id, "snapshot_name": "base-ready"});
        self.refused("snapshot_delete", needed.clone()).is("snapshot_in_use", &["approach-sorting"]);
        for fork in &forks {
            self.destroy(fork);
        }
        assert_eq!(self.call("snapshot_delete", needed)["deleted"], true);
        self.destroy(&id);
    }

    /// Pattern 4. The workspace is kept for later patterns.
    fn persistent_environment(&mut self) -> String {
        let id = self.create(json!({"name": "rust-dev-env", "memory_mb": 2048, "disk_gb": 20}));
        let setup = "apk add build-base curl && curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | \
                     sh -s -- -y";
        let ran = self.call("exec", json!({"workspace_id": id, "command": setup, "timeout_secs": 300}));
        assert_ne!(ran["exit_code"], 0, "there is no internet: {ran}");
        self.mcp.sh(&id, "mkdir -p /app; echo installed > /app/toolchain; df -BG / | tail -n1");
        self.call("snapshot_create", json!({"workspace_id": id, "name": "toolchain-installed"}));
        self.call("workspace_stop", json!({"workspace_id": id}));

        // A new session finds what the first one left.
        let first = std::mem::replace(&mut self.mcp, self.place.mcp(&[]));
        first.end();
        let listed = self.call("workspace_list", json!({}));
        let found = &listed["workspaces"][0];
        assert_eq!((&found["name"], &found["state"]), (&json!("rust-dev-env"), &json!("stopped")));
        assert_eq!(found["workspace_id"], id);
        assert_eq!(found["resources"], json!({"vcpus": 1, "memory_mb": 2048, "disk_gb": 20}));
        assert_eq!(self.call("workspace_start", json!({"workspace_id": id}))["state"], "running");
        let ran = self.call(
            "exec",
            json!({"workspace_id": id, "command": "cat toolchain", "workdir": "/app", "timeout_secs": 120}),
        );
        assert_eq!(ran["stdout"], "installed\n");
        id
    }

    /// Pattern 5.
    fn file_editing(&mut self, id: &str) {
        let path = "/app/config.py";
        let write = json!({"workspace_id": id, "path": path, "content": "DEBUG = True\n"});
        assert_eq!(self.call("file_write", write)["bytes"], 13);
        let read = json!({"workspace_id": id, "path": path});
        assert_eq!(self.call("file_read", read.clone())["content"], "DEBUG = True\n");
        let edit = json!({"workspace_id": id, "path": path, "old_string": "DEBUG = True", "new_string": "DEBUG = False"});
        assert_eq!(self.call("file_edit", edit.clone())["replacements"], 1);
        assert_eq!(self.call("file_read", read.clone())["content"], "DEBUG = False\n");
        self.refused("file_edit", edit).is("edit_mismatch", &[]);
        let content = "DEBUG = False\nDATABASE_URL = 'sqlite:///db.sqlite3'\nSECRET_KEY = 'dev-only'\n";
        let write = json!({"workspace_id": id, "path": path, "content": content, "mode": "0644"});
        self.call("file_write", write);
        let part = json!({"workspace_id": id, "path": path, "offset": 14, "limit": 12});
        assert_eq!(self.call("file_read", part)["content"], "DATABASE_URL");
        let listed = self.call("file_list", json!({"workspace_id": id, "path": "/app"}));
        let entry = &listed["entries"][0];
        assert_eq!((&entry["name"], &entry["kind"]), (&json!("config.py"), &json!("file")));
        assert_eq!((&entry["size"], &entry["permissions"]), (&json!(content.len()), &json!("rw-r--r--")));
        assert!(entry["modified"].as_str().unwrap() > "2020-09-13T12:26:40Z", "{entry}");
        let root = self.call("file_list", json!({"workspace_id": id, "path": "/"}));
        let app = root["entries"].as_array().unwrap().iter().find(|entry| entry["name"] == "app").unwrap();
        assert_eq!(app["kind"], "directory");
    }

    fn background_execution(&mut self, id: &str) {
        let command = "cd /app && echo compiling && read word && echo finished $word";
        let job = self.call(
            "exec_background",
            json!({"workspace_id": id, "command": command, "workdir": "/app", "stdin": true}),
        );
        assert_eq!(job, json!({"job_id": 1, "status": "started", "shell": "/bin/bash"}));
        let running = self.call("exec_poll", json!({"workspace_id": id, "job_id": 1, "wait": "output"}));
        assert_eq!((&running["job_id"], &running["running"]), (&json!(1), &json!(true)));
        assert_eq!((&running["exit_code"], &running["stdout"]), (&Value::Null, &json!("compiling\n")));
        assert_eq!(running["stderr"], "");
        // Other calls work meanwhile.
        self.call("file_write", json!({"workspace_id": id, "path": "/app/new_test", "content": "x"}));
        let word = json!({"workspace_id": id, "job_id": 1, "data": "well\n"});
        self.mcp.call("exec_write", word);
        let ended = json!({"workspace_id": id, "job_id": 1, "wait": "exit"});
        self.call("exec_poll", ended);
        let ended = self.call("exec_poll", json!({"workspace_id": id, "job_id": 1}));
        assert_eq!((&ended["running"], &ended["exit_code"]), (&json!(false), &json!(0)));
        assert_eq!(ended["stdout"], "compiling\nfinished well\n");
    }

    fn port_forwarding(&mut self, id: &str) {
        self.call(
            "exec_background",
            json!({"workspace_id": id, "command": "cd /app && python3 -m http.server 8080"}),
        );
        self.mcp.sh(id, LISTENS.replace("PORT", "8080").as_str());
        let asked = json!({"workspace_id": id, "guest_port": 8080});
        let forward = self.call("port_forward", asked.clone());
        assert_eq!((&forward["workspace_id"], &forward["guest_port"]), (&json!(id), &json!(8080)));
        assert!(fetch(port(&forward), "/toolchain").ends_with("installed\n"));
        assert_eq!(self.call("port_forward_remove", asked.clone())["removed"], true);
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let chosen = json!({"workspace_id": id, "guest_port": 8080, "host_port": free});
        assert_eq!(port(&self.call("port_forward", chosen)), free);
        assert!(fetch(free, "/toolchain").ends_with("installed\n"));
        self.call("port_forward_remove", asked);
        TcpStream::connect(("127.0.0.1", free)).unwrap_err();
    }

    fn file_transfer(&mut self, id: &str) {
        let transfers = self.place.path().join("transfers");
        std::fs::create_dir_all(&transfers).unwrap();
        std::fs::write(transfers.join("dataset.csv"), "a,b\n1,2\n").unwrap();
        let (dataset, results) = (transfers.join("dataset.csv"), transfers.join("results.json"));
        let upload = json!({"workspace_id": id, "host_path": dataset, "guest_path": "/app/data/dataset.csv"});
        let sent = self.call("file_upload", upload);
        assert_eq!((&sent["bytes"], &sent["files"]), (&json!(8), &json!(1)));
        self.mcp.sh(id, "mkdir -p /app/output; tr , : < /app/data/dataset.csv > /app/output/results.json");
        let download =
            json!({"workspace_id": id, "guest_path": "/app/output/results.json", "host_path": results});
        let received = self.call("file_download", download);
        let results = received["host_path"].as_str().unwrap();
        assert_eq!(std::fs::read_to_string(results).unwrap(), "a:b\n1:2\n");
        let outside = json!({"workspace_id": id, "guest_path": "/app/x", "host_path": "/etc/hostname"});
        self.refused("file_upload", outside).is("path_not_allowed", &["transfers"]);
    }

    /// Pattern 6, with a server on the workspace's loopback interface instead of the internet.
    fn git_workflow(&mut self) {
        let id = self.create(json!({"name": "git-work"}));
        let far =
            json!({"workspace_id": id, "url": "https://github.com/user/repo.git", "path": "/workspace/repo"});
        self.refused("git_clone", far).is("git_failed", &["no network"]);
        self.mcp.sh(
            &id,
            "git config --global user.name tester; git config --global user.email tester@example.com; \
             git config --global init.defaultBranch main; git init -q --bare /srv/repo.git; \
             git init -q /tmp/first; cd /tmp/first; echo '# Old Title' > README.md; git add .; \
             git commit -qm first; git push -q /srv/repo.git main",
        );
        let serve = "git daemon --base-path=/srv --export-all --enable=receive-pack --listen=127.0.0.1 /srv";
        self.call("exec_background", json!({"workspace_id": id, "command": serve}));
        self.mcp.sh(&id, LISTENS.replace("PORT", "9418").as_str());
        let near = json!({"workspace_id": id, "url": "git://127.0.0.1/repo.git", "path": "/workspace/repo"});
        let cloned = self.call("git_clone", near);
        assert_eq!((&cloned["success"], &cloned["path"]), (&json!(true), &json!("/workspace/repo")));
        assert_eq!(cloned["commit_sha"].as_str().unwrap().len(), 40);
        self.call(
            "file_edit",
            json!({"workspace_id": id, "path": "/workspace/repo/README.md", "old_string": "# Old Title", "new_string": "# New Title"}),
        );
        let status = json!({"workspace_id": id, "path": "/workspace/repo"});
        let state = self.call("workspace_git_status", status.clone());
        assert_eq!((&state["branch"], &state["dirty"]), (&json!("main"), &json!(true)));
        assert_eq!((&state["staged"], &state["untracked"]), (&json!([]), &json!([])));
        assert_eq!(state["modified"], json!(["README.md"]));
        let command = "cd /workspace/repo && git add -A && git commit -m 'Update title' && git push";
        let ran = self.call("exec", json!({"workspace_id": id, "command": command, "timeout_secs": 30}));
        assert_eq!(ran["exit_code"], 0, "{ran}");
        assert_eq!(self.call("workspace_git_status", status)["dirty"], false);
        let pushed = self.mcp.sh(&id, "git -C /srv/repo.git log -1 --format=%s main");
        assert_eq!(pushed, "Update title");
        self.destroy(&id);
    }

    /// Pattern 7.
    fn snapshot_sizes(&mut self, id: &str) {
        self.call("snapshot_create", json!({"workspace_id": id, "name": "after-install"}));
        self.call("file_write", json!({"workspace_id": id, "path": "/app/later", "content": "x"}));
        let listed = self.call("snapshot_list", json!({"workspace_id": id}));
        let snapshots = listed["snapshots"].as_array().unwrap();
        let names: Vec<&str> = snapshots.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["toolchain-installed", "after-install"]);
        for snapshot in snapshots {
            assert!(snapshot["created_at"].is_string() && snapshot["used_bytes"].is_u64(), "{snapshot}");
            assert!(snapshot["referenced_bytes"].as_u64().unwrap() > 0, "{snapshot}");
        }
        let diff = self.call("snapshot_diff", json!({"workspace_id": id, "snapshot_name": "after-install"}));
        let changes = diff["changes"].as_array().unwrap();
        let change = changes.iter().find(|change| change["path"] == "/app/later").unwrap();
        assert_eq!(change["change"], "added");
    }
}

/// Waits until a port of the workspace has a listener.
const LISTENS: &str =
    "timeout 60 bash -c 'until (exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null; do sleep 0.1; done'";

fn port(forward: &Value) -> u16 {
    u16::try_from(forward["host_port"].as_u64().unwrap()).unwrap()
}

fn fetch(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
