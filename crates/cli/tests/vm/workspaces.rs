//! Workspaces on real machines.

use std::process::Command;

use serde_json::Value;

use crate::common::{Started, text, with_input};
use crate::place::Place;

#[test]
fn files_survive_a_stop_and_processes_do_not() {
    let place = Place::with("web");
    place.sh(
        "web",
        "echo kept > /root/file; setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > /run/pid",
    );
    assert_eq!(place.sh("web", "kill -0 $(cat /run/pid) && echo alive"), "alive");
    let stopped = place.json(&["stop", "web"]);
    assert_eq!((&stopped["state"], &stopped["note"]), (&"stopped".into(), &Value::Null), "powered off");
    assert!(place.processes().is_empty());
    assert_eq!(place.json(&["start", "web"])["state"], "running");
    let process = place.json(&["info", "web"])["pid"].clone();
    assert!(place.text(&["start", "web"]).contains("already"), "starting a running workspace does nothing");
    assert_eq!(place.json(&["info", "web"])["pid"], process);
    assert_eq!(place.sh("web", "cat /root/file; hostname; test -e /run/pid || echo gone"), "kept\nweb\ngone");
}

#[test]
fn a_command_has_its_own_exit_code_output_input_and_environment() {
    let place = Place::with("web");
    let output = place.output(&["exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out".to_owned(), "err".to_owned()));
    assert_eq!(output.status.code(), Some(7));
    let code = |words: &[&str]| place.output(words).status.code();
    assert_eq!(code(&["exec", "web", "--", "no-such-command"]), Some(127));
    assert_eq!(code(&["exec", "web", "--timeout", "1", "--", "sleep", "100"]), Some(124));
    assert_eq!(code(&["exec", "nobody", "--", "true"]), Some(125));
    let flags = ["exec", "web", "-e", "WORD=a b", "-w", "/var/tmp", "-u", "nobody", "--"];
    let script = ["sh", "-c", "echo $WORD; pwd; id -u"];
    assert_eq!(place.text(&[&flags[..], &script[..]].concat()), "a b\n/var/tmp\n65534");
    let input = b"line\n".repeat(100_000);
    let echoed = with_input(place.command(&["exec", "web", "--", "cat"]), &input);
    assert!(echoed.stdout == input, "{} bytes came back", echoed.stdout.len());
    let output = place.output(&["exec", "web", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["stdout"], &report["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((&report["workspace"], &report["exit_code"]), (&"web".into(), &3.into()));
}

#[test]
fn an_interrupted_command_ends_and_its_workspace_keeps_running() {
    let place = Place::with("web");
    let script = "echo $$ > /run/pid; echo ready; exec sleep 1000";
    let started = Started::until_ready(place.command(&["exec", "web", "--", "sh", "-c", script]));
    started.signal("INT");
    assert_eq!(started.finish().0, Some(130));
    assert_eq!(place.sh("web", "kill -0 $(cat /run/pid) 2>/dev/null || echo gone"), "gone");

    let script = "trap 'echo ignored >&2' TERM; echo $$ > /run/pid; echo ready; while :; do sleep 0.1; done";
    let mut started = Started::until_ready(place.command(&["exec", "web", "--", "sh", "-c", script]));
    started.signal("TERM");
    started.wait_for_complaint("ignored\n");
    started.signal("TERM");
    assert_eq!(started.finish().0, Some(143));
    let wait =
        "timeout 60 sh -c 'while kill -0 $(cat /run/pid) 2>/dev/null; do sleep 0.02; done' && echo gone";
    assert_eq!(place.sh("web", wait), "gone");
}

#[test]
fn workspaces_are_isolated_and_found_by_name_and_id() {
    let place = Place::with("alpha");
    // Of the default size: for another size a template is created in the background, by a process that would be counted
    // below.
    let made = place.json(&["create", "--name", "beta"]);
    let id = made["workspace_id"].as_str().unwrap();
    assert!(made["boot_time_ms"].as_u64().unwrap() > 0, "{made}");
    // The default size depends on the acceleration and on the configuration of the tests.
    let size = &made["resources"];
    place.sh("alpha", "echo 1 > /root/file");
    assert_eq!(place.sh("beta", "ls /root; hostname"), "beta");
    for asked in ["beta", id, &id[id.len() - 8..]] {
        assert_eq!(place.json(&["info", asked])["name"], "beta", "{asked}");
    }
    assert_eq!(place.names(), ["alpha", "beta"]);
    let listed = place.text(&["ls"]);
    assert!(listed.starts_with("NAME\tSTATE\tIMAGE\tVCPUS\tMEMORY\tDISK\tAGE\tFROM\tLABELS\n"), "{listed}");
    let shown = format!(
        "beta\trunning\tdebian\t{}\t{}.0 MiB\t{}.0 GiB\t",
        size["vcpus"], size["memory_mb"], size["disk_gb"]
    );
    assert!(listed.contains(&shown), "{listed}");
    assert!(place.text(&["info", "beta"]).contains(id));

    place.refused(&["create", "--name", "alpha"]).is("workspace_exists", &["alpha"]);
    place.refused(&["create", "--name", "a_b"]).is("invalid_argument", &["a_b"]);
    place.refused(&["info", "betta"]).is("workspace_not_found", &["betta", "beta"]);
    place.refused(&["rm", "alpha", "betta"]).is("workspace_not_found", &["betta", "beta"]);
    place.refused(&["rm", "alpha", "beta"]).is("workspace_running", &["alpha", "beta", "--force"]);
    assert_eq!(place.names(), ["alpha", "beta"], "nothing was removed");
    assert_eq!(place.json(&["rm", "--force", "alpha"])["removed"][0]["name"], "alpha");
    assert_eq!(place.processes().len(), 1);
    assert_eq!(place.sh("beta", "echo still here"), "still here");
    place.text(&["stop", "--force", "beta"]);
    place.text(&["rm", "beta"]);
    assert!(place.left().is_empty() && place.processes().is_empty());
}

#[test]
fn a_dead_machine_is_detected_and_started_again() {
    let place = Place::with("web");
    place.sh("web", "echo kept > /root/file; sync");
    let pid = place.json(&["info", "web"])["pid"].to_string();
    assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let mut view = place.json(&["info", "web"]);
    while view["state"] == "running" {
        view = place.json(&["info", "web"]);
    }
    assert_eq!(view["state"], "stopped");
    assert!(view["stop_reason"].as_str().unwrap().contains("unexpectedly"), "{view}");
    // It starts on use.
    assert_eq!(place.sh("web", "cat /root/file"), "kept");
}

#[test]
fn an_interrupted_create_is_finished_by_the_daemon() {
    let place = Place::new();
    let mut command = place.command(&["create", "--name", "web", "--cold"]);
    command.stderr(std::process::Stdio::piped());
    let started = Started(command.spawn().unwrap());
    // QEMU runs long before a cold boot has finished.
    while place.processes().is_empty() {
        std::thread::yield_now();
    }
    started.signal("INT");
    let (code, said) = started.finish();
    assert!(
        code == Some(130) && said.contains("error[cancelled]") && said.contains("daemon"),
        "{code:?} {said}"
    );
    while place.names().is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(place.sh("web", "hostname"), "web");
}

#[test]
fn unread_input_does_not_delay_a_signal() {
    let place = Place::with("web");
    let mut command = place.command(&["exec", "web", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    command.stdin(std::fs::File::open("/dev/zero").unwrap());
    let started = Started::until_ready(command);
    started.signal("TERM");
    assert_eq!(started.finish().0, Some(143));
}

#[test]
fn arguments_that_are_not_utf8_and_numeric_users_reach_the_command() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::with("web");
    let mut command = place.command(&["exec", "web", "-u", "1234:77", "-e", "RAW", "--", "sh", "-c"]);
    command.arg("printf '%s|%s|' \"$1\" \"$RAW\" | od -An -tx1 | tr -d ' \\n'; id -u; id -g").arg("sh");
    command.arg(std::ffi::OsStr::from_bytes(b"a\xff")).env("RAW", std::ffi::OsStr::from_bytes(b"\xfeb"));
    let output = command.output().unwrap();
    assert_eq!(text(&output.stdout), "61ff7cfe627c1234\n77", "{}", text(&output.stderr));
    assert_eq!(place.output(&["exec", "web", "--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn workspaces_can_be_filtered_by_label_and_state() {
    let place = Place::with("plain");
    let flags =
        ["create", "--name", "blue", "--label", "team=blue", "--label", "stage=test", "--ttl", "3600"];
    assert!(place.json(&flags)["expires_at"].is_string());
    let named = |flags: &[&str]| {
        let listed = place.json(&[&["ls"], flags].concat());
        let name = |view: &Value| view["name"].as_str().unwrap().to_owned();
        listed["workspaces"].as_array().unwrap().iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(named(&["--label", "team=blue"]), "blue");
    assert_eq!(named(&["--label", "team=blue", "--label", "stage=live"]), "");
    place.json(&["stop", "plain"]);
    assert_eq!(named(&["--state", "stopped"]), "plain");
    assert!(place.text(&["ls"]).contains("\tstage=test, team=blue"));
}

#[test]
fn a_crash_is_reported_with_the_last_console_lines() {
    let place = Place::with("web");
    let crash = ["exec", "web", "--", "sh", "-c", "echo c > /proc/sysrq-trigger; sleep 100"];
    place.refused(&crash).is("vm_crashed", &["panic"]);
    // It is detected soon.
    while !place.json(&["info", "web"])["stop_reason"].to_string().contains("panic") {
        std::thread::yield_now();
    }
    assert_eq!(place.json(&["info", "web"])["state"], "stopped");
}
