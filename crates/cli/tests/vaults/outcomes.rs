//! Every outcome of a command has an envelope and an exit code of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::place::Place;

/// Asserts what an envelope says about the outcome.
macro_rules! assert_outcome {
    ($ran:expr, $code:expr, $outcome:expr, $state:expr) => {{
        let (code, envelope) = $ran;
        let result = &envelope["result"];
        assert_eq!(
            (code, result["outcome"].as_str(), result["state"].as_str()),
            ($code, Some($outcome), Some($state)),
            "{envelope}"
        );
        assert_eq!(result["exit_status"], $code);
        assert_eq!(envelope["success"], $code == 0);
        envelope
    }};
}

#[test]
fn a_command_that_succeeds_is_done() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(place.run(&["--", "echo", "a  b"]), 0, "done", "completed");
    assert_eq!(envelope["result"]["stdout"], "a  b\n");
    assert_eq!(envelope["result"]["exit_code"], 0);
    assert_eq!(envelope["request"]["argv"], serde_json::json!(["echo", "a  b"]));
    assert_eq!(envelope["result"]["decision"]["action"], "allow");
    assert_eq!(envelope["result"]["decision"]["categories"], serde_json::json!(["read_only"]));
    assert!(envelope["result"]["checkpoint"].is_null());
    assert_eq!(envelope["result"]["workspace"], "work");
}

#[test]
fn a_command_that_fails_keeps_its_exit_code_and_its_envelope() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(
        place.run(&["--shell", "echo out; echo err >&2; exit 42"]),
        42,
        "failed",
        "completed"
    );
    assert_eq!(envelope["result"]["stdout"], "out\n");
    assert_eq!(envelope["result"]["stderr"], "err\n");
    assert_eq!(envelope["result"]["exit_code"], 42);
}

#[test]
fn a_command_that_would_leave_the_vault_is_denied() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(place.run(&["--", "cat", "/etc/passwd"]), 126, "denied", "denied");
    assert_eq!(envelope["result"]["decision"]["action"], "deny");
    assert_eq!(envelope["result"]["decision"]["rule"], "default:host_escape_risk");
    assert_eq!(envelope["result"]["stdout"], "");
    let log = place.json("audit", &["--vault", "work", "audit"]);
    assert_eq!(log["entries"][0]["operation"], "proxy_exec_denied");
}

#[test]
fn a_networked_command_needs_approval() {
    let place = Place::with_vault();
    let ran = place.run(&["--", "curl", "https://example.com"]);
    let envelope = assert_outcome!(ran, 3, "approval_required", "approval_required");
    let approval = &envelope["result"]["approval"];
    assert_eq!(approval["state"], "open");
    assert!(approval["grant_with"].as_str().unwrap().contains(approval["token"].as_str().unwrap()));
}

#[test]
fn a_command_that_takes_too_long_is_ended_and_what_it_did_is_kept() {
    let place = Place::with_vault();
    let line = "echo begun; echo x > kept; trap '' TERM; sleep 100 & wait; sleep 100";
    let envelope =
        assert_outcome!(place.run(&["--timeout", "1s", "--shell", line]), 124, "timed_out", "timed_out");
    let result = &envelope["result"];
    assert_eq!(result["timed_out"], true);
    assert_eq!(result["stdout"], "begun\n");
    assert_eq!(result["changed_files"], serde_json::json!(["/kept"]));
    assert_eq!(envelope["request"]["timeout"], serde_json::json!({ "millis": 1000 }));
    assert_eq!(place.cat("/kept"), "x\n");
}

#[test]
fn a_program_that_does_not_exist_is_not_found() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(place.run(&["--", "no-such-program"]), 127, "not_found", "failed");
    assert_eq!(envelope["result"]["error"]["code"], "file_not_found");
    assert_eq!(envelope["result"]["exit_code"], 127);
}

#[test]
fn a_command_that_a_signal_ends_is_killed() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(place.run(&["--shell", "kill -SEGV $$"]), 139, "killed", "killed");
    assert_eq!(envelope["result"]["exit_code"], -1);
    assert_eq!(envelope["result"]["signal"], 11);
    assert_eq!(envelope["result"]["signal_name"], "SIGSEGV");
}

#[test]
fn a_request_that_makes_no_sense_has_an_envelope_too() {
    let place = Place::with_vault();
    let ran = place.run(&["--cwd", "/../..", "--", "true"]);
    let envelope = assert_outcome!(ran, 125, "invalid_request", "failed");
    assert_eq!(envelope["result"]["error"]["code"], "invalid_argument");
    assert_eq!(envelope["result"]["decision"]["rule"], "none");
    assert_outcome!(place.run_in("none", &["--", "true"]), 125, "invalid_request", "failed");
    assert_outcome!(place.run(&["--env", "=x", "--", "true"]), 125, "invalid_request", "failed");
    assert_outcome!(place.run(&["--cwd", "/none", "--", "true"]), 125, "invalid_request", "failed");
    assert_outcome!(place.run(&[]), 125, "invalid_request", "failed");
    // Even a line that cannot be parsed.
    let done = place.avfs(&["--json", "--vault", "work", "proxy", "exec", "--no-such-flag", "--", "true"]);
    assert_eq!(
        (done.code, done.value("proxy_exec_result")["result"]["outcome"].as_str()),
        (2, Some("invalid_request"))
    );
    let done = place.avfs(&["--json", "proxy", "exec", "--", "true"]);
    let envelope = done.value("proxy_exec_result");
    assert!(envelope["result"]["error"]["message"].as_str().unwrap().contains("no vault"), "{envelope}");
}

#[test]
fn a_failure_of_agentiso_is_an_internal_error() {
    let place = Place::with_vault();
    place.write("/a", "x");
    // The directory of working directories cannot be used.
    let work = place.home().join("vaults/work");
    if work.exists() {
        fs::remove_dir_all(&work).unwrap();
    }
    fs::write(&work, "in the way").unwrap();
    let envelope = assert_outcome!(place.run(&["--", "touch", "b"]), 125, "internal_error", "failed");
    assert!(envelope["result"]["error"]["message"].is_string());
    assert_eq!(envelope["result"]["decision"]["action"], "allow_with_checkpoint");
}

#[test]
fn a_dry_run_says_what_would_happen_and_changes_nothing() {
    let place = Place::with_vault();
    let envelope = assert_outcome!(place.run(&["--dry-run", "--", "touch", "a"]), 0, "planned", "planned");
    assert_eq!(envelope["result"]["decision"]["action"], "allow_with_checkpoint");
    assert_outcome!(place.run(&["--dry-run", "--", "cat", "/etc/passwd"]), 126, "denied", "denied");
    let ran = place.run(&["--dry-run", "--fork", "auto", "--", "curl", "https://example.com"]);
    assert_outcome!(ran, 3, "approval_required", "approval_required");
    assert_eq!(place.json("inbox_list", &["inbox"]), serde_json::json!([]));
    assert_eq!(place.json("vault_list", &["vault", "ls"]).as_array().unwrap().len(), 1);
    assert_eq!(place.work("checkpoint_list", &["checkpoint", "ls"])["snapshots"], serde_json::json!([]));
}

#[test]
fn a_signal_to_avfs_ends_the_command_and_still_gives_an_envelope() {
    let place = Place::with_vault();
    let words = [
        "--json",
        "--vault",
        "work",
        "proxy",
        "exec",
        "--stream",
        "--shell",
        "echo x > kept; echo ready; sleep 100",
    ];
    let mut child = place.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    crate::schema::check("proxy_exec_output", &serde_json::from_str(&line).unwrap());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    let envelope: serde_json::Value = serde_json::from_str(&line).unwrap();
    crate::schema::check("proxy_exec_result", &envelope);
    assert_eq!(envelope["result"]["outcome"], "killed");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(place.cat("/kept"), "x\n");
}
