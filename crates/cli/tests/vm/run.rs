//! `agentiso run` on real machines.

use std::collections::HashSet;

use crate::common::{Started, agentiso, run, run_with_input, sh, text};
use crate::place::Place;

#[test]
fn the_guest_has_its_own_kernel() {
    let home = Place::new();
    let guest = sh(&home, "cat /proc/sys/kernel/random/boot_id; uname -r");
    let host = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(guest.status.success(), "{}", text(&guest.stderr));
    assert!(!text(&guest.stdout).contains(host.trim()));
}

#[test]
fn output_streams_are_separate_and_the_exit_code_is_passed_on() {
    let home = Place::new();
    let output = sh(&home, "echo out; echo err >&2; exit 7");
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("out".to_owned(), "err".to_owned()));
    assert_eq!(output.status.code(), Some(7));
    assert!(home.is_empty());
}

#[test]
fn the_exit_code_says_why_a_command_did_not_run_or_was_killed() {
    let home = Place::new();
    assert_eq!(run(&home, &[], &["no-such-command"]).status.code(), Some(127));
    assert_eq!(run(&home, &[], &["/etc/passwd"]).status.code(), Some(126));
    assert_eq!(run(&home, &["--timeout", "1"], &["sleep", "100"]).status.code(), Some(124));
    assert_eq!(sh(&home, "kill -9 $$").status.code(), Some(137));
}

#[test]
fn a_hundred_megabytes_come_through_a_pipe_and_a_tee() {
    let home = Place::new();
    let script = "head -c 100M /dev/zero | tee >(wc -c >&2) | wc -c";
    let output = run(&home, &[], &["bash", "-c", script]);
    assert_eq!(text(&output.stdout), "104857600");
    assert_eq!(text(&output.stderr), "104857600");
}

#[test]
fn a_hundred_megabytes_of_output_are_complete() {
    let home = Place::new();
    let output = run(&home, &[], &["head", "-c", "100M", "/dev/zero"]);
    assert_eq!(output.stdout.len(), 100 << 20);
    assert!(output.stdout.iter().all(|&byte| byte == 0));
}

#[test]
fn input_of_any_length_reaches_the_command() {
    let home = Place::new();
    let input: Vec<u8> = (0..20_000_000u32).map(|number| (number % 251) as u8).collect();
    let output = run_with_input(&home, &["cat"], &input);
    assert!(output.stdout == input, "{} bytes came back", output.stdout.len());
}

#[test]
fn environment_directory_user_and_size_can_be_set() {
    let home = Place::new();
    let script =
        "echo $WORD; pwd; id -u; nproc; df -B1G --output=size / | tail -1; grep MemTotal /proc/meminfo";
    let flags = [
        "--env",
        "WORD=a b=c",
        "--workdir",
        "/var/tmp",
        "--user",
        "nobody",
        "--vcpus",
        "2",
        "--memory",
        "300",
        "--disk",
        "3",
    ];
    let output = run(&home, &flags, &["sh", "-c", script]);
    let printed = text(&output.stdout);
    let lines: Vec<&str> = printed.lines().map(str::trim).collect();
    assert_eq!(lines[..5], ["a b=c", "/var/tmp", "65534", "2", "3"], "{}", text(&output.stderr));
    let memory: u32 = lines[5].split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((230_000..300 * 1024).contains(&memory), "{memory}");
}

#[test]
fn every_clone_has_its_own_identity() {
    let home = Place::new();
    let script = "head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'; echo; cat /etc/machine-id; hostname; \
                  cat /sys/class/net/eth0/address; cat /proc/sys/kernel/random/uuid";
    let mut seen = HashSet::new();
    for _ in 0..4 {
        let output = sh(&home, script);
        let printed = text(&output.stdout);
        assert_eq!(printed.lines().count(), 5, "{}", text(&output.stderr));
        for line in printed.lines() {
            assert!(seen.insert(line.to_owned()), "two machines share {line}");
        }
    }
}

#[test]
fn the_clock_is_set_from_the_host_and_advances() {
    let home = Place::new();
    let output = sh(&home, "date +%s; sleep 1.1; date +%s");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let times: Vec<u64> = text(&output.stdout).lines().map(|line| line.parse().unwrap()).collect();
    assert!(times[1] > times[0]);
    assert!(now.abs_diff(times[1]) < 30, "the guest says {}, the host {now}", times[1]);
}

#[test]
fn a_cold_boot_gives_the_same_machine() {
    let home = Place::new();
    let output = run(&home, &["--cold", "--json"], &["sh", "-c", "echo out; echo err >&2; exit 3"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tier"], "cold", "{report}");
    assert_eq!((&report["stdout"], &report["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((output.status.code(), &report["exit_code"]), (Some(3), &3.into()));
}

#[test]
fn a_clone_reports_its_start_tier() {
    let home = Place::new();
    let output = run(&home, &["--json"], &["true"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["tier"], "warm_template");
    assert!(report["accel"] == "tcg" || report["accel"] == "kvm");
}

#[test]
fn a_terminal_has_the_given_size() {
    let home = Place::new();
    let output = run(&home, &["--tty"], &["sh", "-c", "test -t 0 && test -t 1 && stty size"]);
    assert_eq!(text(&output.stdout), "24 80", "{}", text(&output.stderr));
}

#[test]
fn a_background_child_does_not_delay_the_end_of_run() {
    let home = Place::new();
    let output = sh(&home, "sleep 1000 & echo done");
    assert_eq!(text(&output.stdout), "done");
    assert!(output.status.success());
}

#[test]
fn signals_reach_the_command() {
    let home = Place::new();
    let started = Started::ready(
        &home,
        "trap 'echo caught >&2; exit 42' INT TERM; echo ready; while :; do sleep 0.1; done",
    );
    started.signal("INT");
    assert_eq!(started.finish(), (Some(42), "caught\n".to_owned()));
    assert!(home.is_empty());
}

#[test]
fn a_second_signal_kills_a_command_that_ignores_the_first() {
    let home = Place::new();
    let script = "trap 'echo ignored >&2' TERM; echo ready; while :; do sleep 0.1; done";
    let mut started = Started::ready(&home, script);
    started.signal("TERM");
    let mut said = Vec::new();
    while !said.ends_with(b"ignored\n") {
        let mut byte = [0];
        std::io::Read::read_exact(started.0.stderr.as_mut().unwrap(), &mut byte).unwrap();
        said.push(byte[0]);
    }
    started.signal("TERM");
    assert_eq!(started.finish().0, Some(143));
    assert!(home.is_empty());
}

/// Waits until nothing is left: the daemon may still be destroying it.
fn wait_until_empty(home: &Place) {
    while !home.is_empty() {
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupted_start_leaves_nothing_behind() {
    let home = Place::new();
    home.text(&["daemon", "start"]);
    let mut command = agentiso(&home);
    command.args(["run", "--cold", "--", "true"]).stderr(std::process::Stdio::piped());
    let started = Started(command.spawn().unwrap());
    // Its QEMU runs long before a cold boot is over.
    while home.processes().is_empty() {
        std::thread::yield_now();
    }
    started.signal("INT");
    assert_eq!(started.finish().0, Some(130));
    wait_until_empty(&home);
    assert!(home.names().is_empty());
}

#[test]
fn a_killed_client_takes_its_workspace_along() {
    let home = Place::new();
    let started = Started::ready(&home, "echo ready; sleep 1000");
    assert_eq!(home.names().len(), 1, "it is listed while it runs");
    started.signal("KILL");
    assert_eq!(started.finish().0, None);
    wait_until_empty(&home);
    assert!(home.names().is_empty());
}

#[test]
fn what_a_killed_daemon_leaves_is_removed_by_the_next_one() {
    let home = Place::with("lasting");
    let started = Started::ready(&home, "echo ready; sleep 1000");
    assert_eq!((home.names().len(), home.processes().len()), (2, 2));
    let daemon = home.daemon().unwrap();
    assert!(std::process::Command::new("kill").args(["-9", &daemon.to_string()]).status().unwrap().success());
    let (code, said) = started.finish();
    assert_eq!(code, Some(125));
    assert!(said.contains("error[daemon_unavailable]"), "{said}");
    assert_eq!(home.processes().len(), 2, "machines outlive the daemon");
    while home.daemon() == Some(daemon) {
        std::thread::yield_now();
    }
    assert_eq!(home.names(), ["lasting"]);
    assert_eq!(home.processes().len(), 1);
}

#[test]
fn a_daemon_that_stops_destroys_the_workspaces_of_runs() {
    let home = Place::new();
    let started = Started::ready(&home, "echo ready; sleep 1000");
    home.text(&["daemon", "stop"]);
    assert!(home.is_empty());
    // Its command was cut off on purpose.
    assert_eq!(started.finish().0, Some(130));
}

#[test]
fn a_run_is_in_the_timeline_and_counts_against_the_limits() {
    let home = Place::new();
    home.configure("[limits]\nmax_workspaces = 1\n");
    home.json(&["create", "--name", "web"]);
    let refused = run(&home, &["--json"], &["true"]);
    assert_eq!(refused.status.code(), Some(125));
    let error: serde_json::Value = serde_json::from_slice(&refused.stdout).unwrap();
    assert_eq!(error["error"]["code"], "quota_exceeded", "{error}");
    home.json(&["rm", "--force", "web"]);
    assert_eq!(sh(&home, "exit 7").status.code(), Some(7));
    let timeline = home.json(&["timeline"]);
    let events = timeline["events"].as_array().unwrap().iter();
    let told = |event: &serde_json::Value| (event["action"].clone(), event["outcome"].clone());
    let actions: Vec<_> = events.map(told).collect();
    for expected in
        [("workspace_create", "quota_exceeded"), ("exec_stream", "ok"), ("workspace_destroy", "ok")]
    {
        assert!(actions.contains(&(expected.0.into(), expected.1.into())), "{expected:?}: {actions:?}");
    }
}

#[test]
fn a_run_takes_a_machine_of_the_pool() {
    let home = Place::new();
    home.configure("[pool]\nsize = 1\n");
    home.text(&["daemon", "start"]);
    home.json(&["create", "--name", "first"]);
    while home.json(&["status"])["pool"] != 1 {
        std::thread::yield_now();
    }
    let output = run(&home, &["--json"], &["echo", "ready"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["tier"], &report["stdout"]), (&"pool".into(), &"ready\n".into()), "{report}");
    assert_eq!(home.names(), ["first"]);
    // The pool ends with the daemon, and the next one has none.
    home.configure("");
    home.text(&["daemon", "stop"]);
}

/// Before 9.0, QEMU cannot be told to open a template's memory for reading only, and each machine may only read it.
#[test]
fn a_qemu_before_9_starts_machines_from_templates() {
    let home = Place::sharing(&["images", "kernel"]);
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let older = dir.path().join("qemu-system-x86_64");
    let script = "#!/bin/sh\n[ \"$1\" != --version ] || { echo 'QEMU emulator version 7.2.22'; exit; }\n\
                  PATH=/usr/bin:/usr/local/bin exec qemu-system-x86_64 \"$@\"\n";
    std::fs::write(&older, script).unwrap();
    std::fs::set_permissions(&older, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Not isolated: an isolated QEMU sees no shell.
    home.configure(&format!("[vm]\nqemu = {older:?}\nisolation = \"off\"\n[pool]\nsize = 0\n"));
    for _ in 0..2 {
        let output = run(&home, &["--memory", "256", "--json"], &["true"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["tier"], "warm_template", "{report}");
    }
}
