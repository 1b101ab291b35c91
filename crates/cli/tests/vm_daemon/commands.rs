//! How commands start and what they return, and the errors if they fail to start or are interrupted.

use serde_json::{Value, json};

use crate::http::Http;
use crate::mcp::Mcp;
use crate::place::{Place, until};

#[test]
fn commands_run_in_bash_return_limited_output_and_fail_with_a_reason() {
    let place = Place::new();
    let (user, mut mcp) = (place.http(), place.mcp(&[]));
    let id = mcp.create("web");
    let shell = shells(&user, &mut mcp, &id);
    long_commands(&user);
    starts_that_fail(&user);
    output_that_fits(&mut mcp, &id);
    // Without bash the same commands run in sh. When bash is back, it is used again.
    user.sh("web", "mv /bin/bash /bin/bash.away");
    let without = mcp.result("exec", json!({"workspace_id": id, "command": "echo $0"}));
    assert_eq!(without["structuredContent"]["shell"], "/bin/sh");
    assert!(without["content"][0]["text"].as_str().unwrap().contains("no bash"), "{without}");
    user.sh("web", "mv /bin/bash.away /bin/bash");
    assert_eq!(user.act("exec", of("echo $0"))["shell"], shell);
    cut_off(&user, &mut mcp, &id);
}

fn of(command: &str) -> Value {
    json!({"workspace_id": "web", "command": command})
}

fn shells(user: &Http, mcp: &mut Mcp, id: &str) -> Value {
    let ran = mcp
        .call("exec", json!({"cmd": "echo ${BASH_VERSION:+bash}; false &> /tmp/log && echo PASS", "id": id}));
    assert_eq!(
        (&ran["stdout"], &ran["exit_code"], &ran["shell"]),
        (&json!("bash\n"), &json!(1), &json!("/bin/bash"))
    );
    let job = user.act("exec_start", of("source /dev/null && echo sourced"));
    assert_eq!(job["shell"], "/bin/bash");
    let poll = json!({"workspace_id": "web", "job_id": job["job_id"], "wait": "exit"});
    assert_eq!(user.act("exec_poll", poll)["stdout"], "sourced\n");
    assert_eq!(user.act("workspace_info", json!({"workspace_id": "web"}))["shell"], "/bin/bash");
    ran["shell"].clone()
}

fn long_commands(user: &Http) {
    user.sh("web", "useradd -m alice");
    let long = format!(": {}\nid -un; echo ${{#A}}", "x".repeat(1 << 20));
    for (who, name) in [(Value::Null, "root"), (json!("alice"), "alice")] {
        let ran = user
            .act("exec", json!({"workspace_id": "web", "command": long, "user": who, "env": {"A": "abc"}}));
        assert_eq!(ran["stdout"], format!("{name}\n3\n"));
    }
    let job = user.act("exec_start", of(&format!("echo begin; {long}")));
    let poll = json!({"workspace_id": "web", "job_id": job["job_id"], "wait": "exit"});
    assert_eq!(user.act("exec_poll", poll)["stdout"], "begin\nroot\n0\n");
    let jobs = user.act("exec_list", json!({"workspace_id": "web"}));
    let command = jobs["jobs"].as_array().unwrap().last().unwrap()["command"].as_str().unwrap().to_owned();
    assert!(command.starts_with("echo begin; : xxx"), "{command}");
    assert_eq!(user.sh("web", "ls -A /tmp | grep -c agentiso || true"), "0", "nothing is left");
    user.refused("exec", of(&"x".repeat((2 << 20) + 1))).is("invalid_argument", &["2097152"]);
}

fn starts_that_fail(user: &Http) {
    let with = |field: &str, value: &str| json!({"workspace_id": "web", "command": "true", field: value});
    user.refused("exec", with("workdir", "/no/such"))
        .is("file_not_found", &["/no/such", "create the directory"]);
    user.refused("exec", with("workdir", "/etc/passwd")).is("not_a_directory", &["/etc/passwd"]);
    user.refused("exec", with("user", "eve")).is("user_not_found", &["eve"]);
    user.refused("exec_start", with("workdir", "/no/such")).is("file_not_found", &[]);
    user.refused("file_list", json!({"workspace_id": "web", "path": "/etc/passwd"}))
        .is("not_a_directory", &["file_read"]);
    let hint = user.act("exec", of("apk add --no-cache git build-base"))["hint"].clone();
    assert_eq!(
        hint,
        "this image has apt-get, not apk; use: apt-get update && apt-get install -y git build-essential"
    );
}

fn output_that_fits(mcp: &mut Mcp, id: &str) {
    let much = json!({"workspace_id": id, "command": "seq 1 100000; seq 1 9 >&2"});
    let ran = mcp.result("exec", much);
    let (text, shown) = (ran["content"][0]["text"].as_str().unwrap(), &ran["structuredContent"]);
    let stdout = shown["stdout"].as_str().unwrap();
    assert!(
        (20_000..31_000).contains(&stdout.len()) && text.len() < 32_000,
        "{} {}",
        stdout.len(),
        text.len()
    );
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("99999\n100000\n"), "{stdout}");
    assert_eq!((&shown["truncated"], &shown["stdout_bytes"]), (&json!(true), &json!(588_895)));
    assert_eq!(
        (&shown["stderr"], &shown["stderr_file"]),
        (&json!("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), &Value::Null)
    );
    let file = shown["stdout_file"].as_str().unwrap();
    assert!(text.contains(file) && stdout.contains(file), "{text}");
    assert_eq!(mcp.sh(id, &format!("cmp {file} <(seq 1 100000) && echo same")), "same");

    let read = mcp.call("file_read", json!({"workspace_id": id, "file_path": file}));
    let content = read["content"].as_str().unwrap();
    assert!(content.len() < 31_000 && content.ends_with("100000\n"), "{}", content.len());
    let (from, count) =
        (read["left_out"]["offset"].as_u64().unwrap(), read["left_out"]["bytes"].as_u64().unwrap());
    let rest =
        mcp.call("file_read", json!({"workspace_id": id, "path": file, "offset": from, "limit": count}));
    let rest = rest["content"].as_str().unwrap();
    let (head, tail) = content.split_once("[...").unwrap();
    let tail = tail.split_once("...]\n").unwrap().1;
    assert_eq!(format!("{head}{rest}{tail}").lines().count(), 100_000);
    let whole = json!({"workspace_id": id, "command": "seq 1 100000", "max_output_bytes": 1_000_000});
    assert_eq!(mcp.call("exec", whole)["stdout"].as_str().unwrap().len(), 588_895);
}

/// A call that is running when its workspace is stopped reports the stop, not a crash.
fn cut_off(user: &Http, mcp: &mut Mcp, id: &str) {
    let call =
        json!({"name": "exec", "arguments": {"workspace_id": id, "command": "touch /tmp/up; sleep 1000"}});
    let running = mcp.send("tools/call", call);
    until(|| user.sh("web", "ls /tmp/up 2>/dev/null || true") == "/tmp/up");
    user.act("workspace_stop", json!({"workspace_id": "web", "force": true}));
    let answer = mcp.answer(running);
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "cancelled", "{answer}");
    assert!(error["message"].as_str().unwrap().contains("web was stopped"), "{answer}");
}
