//! Commands that need approval.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::place::{Done, Place};

/// A policy with which a harmless command needs approval.
const POLICY: &str = "[[rule]]\nname = \"dates\"\naction = \"require_approval\"\nprogram = \"touch\"\n";

fn place() -> Place {
    let place = Place::with_vault();
    let file = place.cwd.path().join("policy.toml");
    std::fs::write(&file, POLICY).unwrap();
    place.work("policy_set", &["policy", "set", file.to_str().unwrap()]);
    place
}

fn ask(place: &Place, words: &[&str]) -> String {
    let words = [&["--json", "--vault", "work", "proxy", "exec"], words].concat();
    token(&elsewhere(place, &words, b"").value("proxy_exec_result"))
}

fn token(envelope: &Value) -> String {
    assert_eq!(envelope["result"]["outcome"], "approval_required", "{envelope}");
    envelope["result"]["approval"]["token"].as_str().unwrap().to_owned()
}

/// Runs `avfs` as an agent: in another session than this process, which is the owner.
fn elsewhere(place: &Place, words: &[&str], input: &[u8]) -> Done {
    let ours = place.command(words);
    let mut command = std::process::Command::new("setsid");
    command.arg("--wait").arg(ours.get_program()).args(ours.get_args()).env_clear();
    for (name, value) in ours.get_envs() {
        command.env(name, value.unwrap());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.current_dir(place.cwd.path()).spawn().unwrap();
    // A call that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Done {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Answers as the owner.
fn answer(place: &Place, words: &[&str]) -> Done {
    place.avfs(&[&["--json", "inbox"], words].concat())
}

#[test]
fn an_approval_is_for_exactly_one_run_of_exactly_that_command() {
    let place = place();
    let token = ask(&place, &["--", "touch", "a"]);
    assert_eq!(ask(&place, &["--", "touch", "a"]), token, "an equal request is the same one");
    let listed = place.json("inbox_list", &["inbox", "list"]);
    assert_eq!(
        (listed[0]["request_id"].as_str(), listed[0]["state"].as_str()),
        (Some(token.as_str()), Some("open"))
    );
    assert_eq!(answer(&place, &["grant", &token[..8]]).value("inbox_request")["state"], "granted");
    // Without the token, for another command, in another directory: nothing runs.
    ask(&place, &["--", "touch", "a"]);
    for other in [
        &["--", "touch", "b"][..],
        &["--readonly", "--", "touch", "a"],
        &["--env", "A=b", "--", "touch", "a"],
    ] {
        let (code, envelope) = place.run(&[&["--approve", token.as_str()], other].concat());
        assert_eq!(
            (code, envelope["result"]["error"]["code"].as_str()),
            (3, Some("approval_required")),
            "{other:?}"
        );
    }
    let (code, envelope) = place.run(&["--approve", &token, "--", "touch", "a"]);
    assert_eq!(code, 0, "{envelope}");
    assert_eq!(envelope["result"]["changed_files"], serde_json::json!(["/a"]));
    assert!(envelope["result"]["checkpoint"].is_string());
    // Once.
    let (code, envelope) = place.run(&["--approve", &token, "--", "touch", "a"]);
    assert_eq!((code, envelope["result"]["error"]["code"].as_str()), (125, Some("approval_closed")));
}

#[test]
fn whoever_asked_cannot_grant() {
    let place = place();
    let (_, asked) = place.run(&["--", "touch", "a"]);
    assert_eq!(asked["result"]["decision"]["rule"], "vault:dates");
    let token = token(&asked);
    // This process and the one that asked are in one session, and nobody is at a terminal.
    place.fails("not_permitted", &["inbox", "grant", &token]);
    // Nor what was started from it in a session of its own.
    let left = elsewhere(&place, &["--json", "inbox", "grant", &token], b"");
    assert_eq!(left.value("error")["error"]["code"], "not_permitted");
    let mut inside = place.command(&["--json", "inbox", "grant", &token]);
    let output = inside.env("AVFS_RUN", "x").output().unwrap();
    assert!(!output.status.success());
    let (code, envelope) = place.run(&["--approve", &token, "--", "touch", "a"]);
    assert_eq!((code, envelope["result"]["approval"]["state"].as_str()), (3, Some("open")));
}

#[test]
fn a_denied_command_is_denied_until_the_denial_is_over() {
    let place = place();
    let token = ask(&place, &["--", "touch", "a"]);
    assert_eq!(answer(&place, &["deny", &token]).value("inbox_request")["state"], "denied");
    for words in [&["--", "touch", "a"][..], &["--approve", &token, "--", "touch", "a"]] {
        let (code, envelope) = place.run(words);
        assert_eq!((code, envelope["result"]["outcome"].as_str()), (126, Some("denied")));
    }
    assert_eq!(place.json("inbox_list", &["inbox"]), serde_json::json!([]));
    assert_eq!(place.json("inbox_list", &["inbox", "list", "--all"])[0]["state"], "denied");
}

#[test]
fn standard_input_is_part_of_what_is_approved() {
    let place = place();
    let words = |token: Option<&str>| {
        let mut words = vec!["--json", "--vault", "work", "proxy", "exec", "--stdin"];
        words.extend(token.iter().flat_map(|token| ["--approve", token]));
        words.extend(["--shell", "touch a; cat"]);
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |token: Option<&str>, input: &[u8]| {
        let words = words(token);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        elsewhere(&place, &words, input).value("proxy_exec_result")
    };
    let asked: Value = run(None, b"harmless");
    let token = asked["result"]["approval"]["token"].as_str().unwrap();
    answer(&place, &["grant", token]);
    assert_eq!(run(Some(token), b"harmful")["result"]["outcome"], "approval_required");
    assert_eq!(run(Some(token), b"harmless")["result"]["stdout"], "harmless");
}

#[test]
fn a_grant_can_last() {
    let place = place();
    let token = ask(&place, &["--", "touch", "a"]);
    answer(&place, &["grant", &token, "--always"]);
    for _ in 0..2 {
        assert_eq!(place.run(&["--", "touch", "a"]).0, 0);
    }
    ask(&place, &["--", "touch", "b"]);
}

#[test]
fn what_is_asked_for_is_one_line_with_the_variables() {
    let place = place();
    let line = "touch a\n0123abcd  open  the owner asks to";
    ask(&place, &["--env", "LD_PRELOAD=/workspace/x.so", "--shell", line]);
    let shown = place.avfs(&["inbox"]).stdout;
    let first = shown.lines().next().unwrap();
    assert!(first.contains(r"touch a\n0123abcd  open"), "{shown}");
    assert!(first.ends_with("in / of the vault work, with values for LD_PRELOAD"), "{shown}");
    assert!(!shown.lines().any(|line| line.starts_with("0123abcd")), "{shown}");
}

#[test]
fn what_is_no_request_cannot_be_answered() {
    let place = place();
    place.fails("approval_not_found", &["inbox", "grant", "abcdef"]);
    place.fails("approval_not_found", &["inbox", "deny", "a"]);
    let (code, envelope) = place.run(&["--approve", "../../x", "--", "touch", "a"]);
    assert_eq!((code, envelope["result"]["error"]["code"].as_str()), (125, Some("approval_not_found")));
}

#[test]
fn a_command_can_ask_where_its_session_cannot_be_seen() {
    let place = place();
    let ours = place.command(&["--json", "--vault", "work", "proxy", "exec", "--", "touch", "a"]);
    let mut command = std::process::Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).arg(ours.get_program());
    command.args(ours.get_args()).env_clear().current_dir(place.cwd.path());
    for (name, value) in ours.get_envs() {
        command.env(name, value.unwrap());
    }
    let output = command.output().unwrap();
    let envelope: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(envelope["result"]["outcome"], "approval_required", "{envelope}");
}
