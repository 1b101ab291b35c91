//! The console, the timeline, the daemon's status, and shell completion.

use std::process::Command;

use crate::common::{Started, text, with_input};
use crate::place::Place;

#[test]
fn the_console_can_be_shown_and_followed() {
    let place = Place::with("web");
    place.sh("web", "echo first-mark > /dev/console");
    assert!(place.text(&["logs", "web"]).contains("first-mark"));
    assert!(place.json(&["logs", "web", "-n", "5"])["console"].as_str().unwrap().contains("first-mark"));
    let mut follow = Started::until(place.command(&["logs", "web", "-n", "1", "--follow"]), "first-mark");
    place.sh("web", "echo second-mark > /dev/console");
    follow.wait_for("second-mark");
    place.refused(&["logs", "nobody"]).is("workspace_not_found", &["nobody"]);
}

#[test]
fn errors_of_the_agent_are_on_the_console() {
    let place = Place::with("web");
    place.sh("web", "rm /etc/hostname; mkdir -p /etc/hostname/in-the-way");
    place.json(&["fork", "web", "--name", "copy"]);
    assert_eq!(place.sh("copy", "hostname"), "copy");
    let console = place.text(&["logs", "copy"]);
    assert!(console.contains("agentiso-guest: cannot write the host name"), "{console}");
}

#[test]
fn the_timeline_lists_actions_and_the_status_counts_workspaces() {
    let place = Place::with("web");
    place.output(&["exec", "web", "--", "sh", "-c", "exit 3"]);
    place.refused(&["snapshot", "restore", "web", "none"]).is("snapshot_not_found", &[]);
    let shown = place.json(&["timeline", "web", "-n", "2"]);
    let event = |index: usize| {
        let event = &shown["events"][index];
        let word = |key: &str| event[key].as_str().unwrap_or("-").to_owned();
        format!("{} {} {}", word("action"), word("outcome"), word("changed"))
    };
    assert_eq!(
        [event(0), event(1)],
        ["snapshot_restore snapshot_not_found -", "exec_stream ok exit code 3"].map(str::to_owned)
    );
    let table = place.text(&["timeline", "-n", "3"]);
    assert!(table.starts_with("AT\tWORKSPACE\tACTION\t") && table.contains("\tagentiso/"), "{table}");
    assert_eq!(place.json(&["status"])["workspaces"]["running"], 1);
    assert!(place.text(&["status"]).contains("workspaces  1 running"));
}

#[test]
fn a_shell_has_a_terminal_and_returns_its_exit_code() {
    let place = Place::with("web");
    let mut command = place.command(&["shell", "web", "--workdir", "/tmp"]);
    command.env("TERM", "vt100");
    let output = with_input(command, b"tty; echo $TERM-$PWD; exit 7\n");
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("/dev/pts/") && said.contains("vt100-/tmp"), "{said}");
    place.refused(&["shell", "web"]).is("invalid_argument", &["exec"]);
}

#[test]
fn shells_complete_commands_and_workspace_names() {
    let place = Place::new();
    // Like the shell: with variables, and the typed words after the dashes.
    let complete = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentiso"));
        command.env("AGENTISO_HOME", place.path()).env_remove("AGENTISO_CONFIG");
        command.env("COMPLETE", "bash").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9");
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        command.env("_CLAP_COMPLETE_SPACE", "false").arg("--").args(words);
        text(&command.output().unwrap().stdout)
    };
    assert!(complete(&["agentiso", "snap"]).contains("snapshot"));
    assert_eq!(complete(&["agentiso", "info", "w"]), "", "no daemon runs, and none is started");
    assert_eq!(place.daemon(), None);
    place.json(&["create", "--name", "web"]);
    place.json(&["create", "--name", "other"]);
    assert_eq!(complete(&["agentiso", "exec", "w"]), "web");
    assert_eq!(complete(&["agentiso", "snapshot", "restore", "o"]), "other");
    for shell in ["bash", "zsh", "fish"] {
        let script = place.text(&["completions", shell]);
        assert!(script.contains("COMPLETE") && script.contains("agentiso"), "{script}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let place = Place::new();
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    place.text(&["man", pages.to_str().unwrap()]);
    for page in ["agentiso.1", "agentiso-exec.1", "agentiso-snapshot-diff.1", "agentiso-jobs-start.1"] {
        let page = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(page.contains(".SH NAME") && page.contains("agentiso"), "{page}");
    }
}
