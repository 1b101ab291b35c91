//! Secrets reach the commands they are meant for, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::mcp::Mcp;
use crate::place::Place;

// Unique words, named after how they are passed in.
const OF_SET: &str = "kite-of-set-env";
const OF_EXEC: &str = "kite-of-exec-env";
const OF_JOB: &str = "kite-of-job-env";
const OF_URL: &str = "kite-of-git-url";
const OF_STDIN: &str = "kite-of-stdin";
const OF_CONTENT: &str = "kite-of-content";
const OF_HEADER: &str = "kite-of-header";
const OF_INPUT: &str = "kite-of-job-input";
const OF_NUMBER: &str = "734528190467";
const SECRETS: [&str; 9] =
    [OF_SET, OF_EXEC, OF_JOB, OF_URL, OF_STDIN, OF_CONTENT, OF_HEADER, OF_INPUT, OF_NUMBER];

/// Everything a client received, searched as a whole.
#[derive(Default)]
struct Told(String);

impl Told {
    fn call(&mut self, mcp: &mut Mcp, tool: &str, arguments: Value) -> Value {
        let result = mcp.result(tool, arguments);
        self.0.push_str(&result.to_string());
        result["structuredContent"].clone()
    }
}

#[test]
fn secrets_reach_their_commands_and_are_found_nowhere_else() {
    let place = Place::new();
    // Log everything.
    assert!(place.command(&["daemon", "start"]).env("AGENTISO_LOG", "trace").status().unwrap().success());
    let mut mcp = place.mcp(&[]);
    let id = mcp.create("vault");
    let mut told = Told::default();
    let set = told.call(&mut mcp, "set_env", json!({"workspace_id": id, "vars": {"SET_SECRET": OF_SET}}));
    assert_eq!(set["names"], json!(["SET_SECRET"]));

    // The commands confirm that they have them, in other words.
    let script =
        "[ \"$SET_SECRET$EXEC_SECRET$(cat)\" = \"$(printf kite-of-%s set-env exec-env stdin)\" ] && echo all";
    let exec =
        json!({"workspace_id": id, "command": script, "env": {"EXEC_SECRET": OF_EXEC}, "stdin": OF_STDIN});
    assert_eq!(told.call(&mut mcp, "exec", exec)["stdout"], "all\n");
    let job = json!({
        "workspace_id": id, "command": "echo ready; read word; exec sleep 1000",
        "env": {"JOB_SECRET": OF_JOB}, "stdin": true
    });
    let job_id = told.call(&mut mcp, "exec_background", job)["job_id"].clone();
    let poll = json!({"action": "poll", "workspace_id": id, "job_id": job_id, "wait": "output"});
    assert_eq!(told.call(&mut mcp, "exec_background", poll)["stdout"], "ready\n");
    let input =
        json!({"action": "write", "workspace_id": id, "job_id": job_id, "data": format!("{OF_INPUT}\n")});
    told.call(&mut mcp, "exec_background", input);
    // In a tmpfs: anything written to a disk would be on the disk.
    let write = json!({"workspace_id": id, "path": "/run/secret", "content": OF_CONTENT});
    told.call(&mut mcp, "file_write", write);
    let header = format!("curl -s -H 'Authorization: Bearer {OF_HEADER}' http://127.0.0.1:9/");
    told.call(&mut mcp, "exec", json!({"workspace_id": id, "command": header}));

    // Failed calls report the reason without the secret.
    let url = format!("http://user:{OF_URL}@127.0.0.1:9/r.git");
    let failed = told.call(&mut mcp, "git_clone", json!({"workspace_id": id, "url": url}));
    assert_eq!(failed["error"]["code"], "git_failed");
    let number: u64 = OF_NUMBER.parse().unwrap();
    for vars in [json!({"SECRET": number}), json!({"PATH": OF_SET}), json!({"A B": OF_SET}), json!(OF_SET)] {
        let wrong = json!({"workspace_id": id, "vars": vars});
        assert_eq!(told.call(&mut mcp, "set_env", wrong.clone())["error"]["code"], "invalid_argument");
        let over_http = place.http().request("POST", "/v1/actions/set_env", Some(&wrong));
        over_http.is_refusal(400, "invalid_argument");
        told.0.push_str(&over_http.body);
    }
    let typed = json!({"workspace_id": id, "command": "true", "env": {"SECRET": [OF_EXEC]}, "stdin": number});
    place.http().request("POST", "/v1/actions/exec", Some(&typed)).is_refusal(400, "invalid_argument");
    told.0.push_str(&place.http().request("POST", "/v1/actions/exec", Some(&typed)).body);
    let gone = json!({"workspace_id": "gone", "command": "true", "env": {"SECRET": OF_EXEC}});
    assert_eq!(told.call(&mut mcp, "exec", gone)["error"]["code"], "workspace_not_found");

    // The timeline names the variables and omits their values.
    let timeline = told.call(&mut mcp, "timeline", json!({"workspace_id": id}));
    let detail = |action: &str| {
        let events = timeline["events"].as_array().unwrap().iter();
        events
            .filter(|event| event["action"] == action)
            .map(|event| event["detail"].to_string())
            .collect::<String>()
    };
    assert!(detail("set_env").contains(r#"["SET_SECRET"]"#), "{timeline}");
    assert!(detail("git_clone").contains("http://[redacted]@127.0.0.1:9/r.git"), "{timeline}");
    assert!(detail("exec").contains("[redacted]"), "{timeline}");
    let info = told.call(&mut mcp, "workspace_info", json!({"workspace_id": id}));
    assert_eq!(info["env_names"], json!(["SET_SECRET"]));
    told.call(&mut mcp, "exec_background", json!({"action": "list", "workspace_id": id}));
    told.call(&mut mcp, "workspace_logs", json!({"workspace_id": id}));

    let session = place.session("another");
    has_none("an answer", told.0.as_bytes(), &[]);
    let also = [session.token()];
    for pid in place.daemon().into_iter().chain(place.machines()) {
        for part in ["cmdline", "environ"] {
            has_none(part, &fs::read(format!("/proc/{pid}/{part}")).unwrap(), &also);
        }
    }
    assert!(place.log().contains("DEBUG"), "nothing was logged");
    let files = files_below(place.path());
    assert!(files.iter().any(|file| file.ends_with("state.db")), "{files:?}");
    for file in files {
        has_none(&file.display().to_string(), &fs::read(&file).unwrap_or_default(), &also);
    }
}

/// Asserts that the bytes contain no secret and none of some other words.
fn has_none(place: &str, bytes: &[u8], more: &[&str]) {
    for secret in SECRETS.iter().chain(more) {
        let found = bytes.windows(secret.len()).position(|window| window == secret.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(200)..bytes.len().min(at + 200)];
            panic!("{secret} is in {place}: {}", String::from_utf8_lossy(around));
        }
    }
}

/// The files of an installation, except memory images and disks of machines.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        let of_machines = ["disks", "memory", "bases"].iter().any(|name| path.ends_with(name));
        if kind.is_dir() && !of_machines {
            files.extend(files_below(&path));
        } else if kind.is_file() {
            files.push(path);
        }
    }
    files
}
