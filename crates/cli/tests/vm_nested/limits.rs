//! Resource limits of machines, and hosts on which they cannot be set.

use std::fs;

use serde_json::json;

use crate::host::{Host, group_of, kill, leave_little_memory, read, until};

#[test]
fn every_machine_has_its_own_cgroup_with_limits_and_leaves_none() {
    let host = Host::new("", "[resources]\noverhead_mb = 100\n");
    host.create("one");
    let group = host.group("one");
    assert_eq!(read(&group, "memory.max"), (356u64 << 20).to_string());
    assert_eq!(read(&group, "memory.swap.max"), (256u64 << 20).to_string());
    assert_eq!(read(&group, "cpu.max"), "150000 100000");
    assert_eq!(read(&group, "pids.max"), "129");
    let limits = &host.info("one")["limits"];
    assert_eq!(limits["memory_bytes"], json!(356u64 << 20));
    assert_eq!((&limits["cpu_percent"], &limits["tasks"]), (&json!(150), &json!(129)));
    // The group also contains kernel threads that work for it.
    assert!(read(&group, "cgroup.procs").lines().any(|pid| pid == host.pid("one").to_string()));

    // Copies have their own limits.
    host.run(&["snapshot", "create", "one", "moment", "--memory"]);
    host.run(&["fork", "one", "--name", "two"]);
    host.run(&["snapshot", "restore", "one", "moment"]);
    let (restored, fork) = (host.group("one"), host.group("two"));
    assert!(restored != group && fork != restored, "{group:?} {restored:?} {fork:?}");
    for limited in [&restored, &fork] {
        assert_eq!(read(limited, "memory.max"), (356u64 << 20).to_string());
    }
    assert!(!group.exists(), "the group of the machine that was replaced is gone");

    host.run(&["stop", "one"]);
    host.run(&["rm", "two", "--force"]);
    assert!(!restored.exists() && !fork.exists());
}

#[test]
fn a_machine_killed_for_lack_of_memory_is_reported_as_such() {
    let host = Host::new("", "");
    host.create("one");
    let group = host.group("one");
    let limit = leave_little_memory(&group);
    let refusal = host.refusal(&["exec", "one", "--", "sh", "-c", "head -c 100M /dev/zero | tail"]);
    assert_eq!(refusal.code, "out_of_memory", "{refusal:?}");
    let reason = || host.info("one")["stop_reason"].as_str().unwrap_or_default().to_owned();
    until("the end is noted", || !reason().is_empty());
    assert!(reason().contains(&format!("more memory than its limit of {limit} MiB")), "{}", reason());
    until("its group goes", || !group.exists());
    host.run(&["start", "one"]);
    host.run(&["exec", "one", "--", "true"]);
}

#[test]
fn a_start_fails_cleanly_if_required_limits_cannot_be_set() {
    let host = Host::new("", "[resources]\ncgroup_required = true\n");
    host.create("one");
    host.run(&["stop", "one"]);
    let host = host.without_groups();
    for words in [&["create", "--name", "two"][..], &["start", "one"], &["run", "--", "true"]] {
        let refusal = host.refusal(words);
        assert_eq!(refusal.code, "limits_unavailable", "{words:?}: {refusal:?}");
        assert!(refusal.message.contains("cgroup v2"), "{refusal:?}");
    }
    assert_eq!(host.machines(), Vec::<u32>::new());
    assert_eq!(host.run(&["ls"]).to_string().matches("workspace_id").count(), 1);
    assert_eq!(host.finding("limits")["standing"], "missing");

    // The next start succeeds.
    let host = host.with_all_again();
    host.run(&["start", "one"]);
    assert!(host.group("one").join("memory.max").exists());
}

#[test]
fn without_cgroup_v2_machines_run_and_it_is_logged_once() {
    let host = Host::new("", "").without_groups();
    host.create("one");
    host.create("two");
    assert_eq!(host.info("one")["limits"], json!(null));
    assert_eq!(host.log().matches("machines run without all of their limits").count(), 1, "{}", host.log());
    let finding = host.finding("limits");
    assert_eq!(finding["standing"], "warning");
    assert!(finding["detail"].as_str().unwrap().contains("no cgroup v2"), "{finding}");
}

#[test]
fn without_systemd_root_creates_cgroups_itself() {
    let host = Host::new("", "").without_systemd();
    host.create("one");
    let group = host.group("one");
    assert!(group.starts_with("/sys/fs/cgroup/agentiso.slice"), "{group:?}");
    assert_eq!(read(&group, "pids.max"), "129");
    host.run(&["rm", "one", "--force"]);
    assert!(!group.exists());
}

#[test]
fn disk_traffic_is_limited_on_request_and_failures_are_reported() {
    let host = Host::new("", "[resources]\nio_write_mb_per_sec = 5\n");
    host.create("one");
    let group = host.group("one");
    assert!(read(&group, "io.max").ends_with("rbps=max wbps=5242880 riops=max wiops=max"));
    assert_eq!(host.info("one")["limits"]["write_bytes_per_sec"], json!(5 << 20));
}

#[test]
fn cgroups_outlive_the_daemon_with_their_machines_and_empty_ones_are_swept() {
    let host = Host::new("", "");
    host.create("one");
    host.create("two");
    let (kept, left) = (host.group("one"), host.group("two"));
    let (survivor, victim) = (host.pid("one"), host.pid("two"));
    host.run(&["daemon", "stop"]);
    kill(victim);
    until("it ends", || read(&left, "cgroup.procs").is_empty());
    // Left by a killed command.
    let unknown = kept.parent().unwrap().join("machine-unknown");
    fs::create_dir(&unknown).unwrap();

    host.run(&["daemon", "start"]);
    assert_eq!((host.pid("one"), group_of(survivor)), (survivor, kept.clone()));
    assert!(!unknown.exists(), "an unknown cgroup is swept");
    assert!(host.info("two")["stop_reason"].is_string());
    until("the group of the one that ended goes", || !left.exists());
    assert_eq!(host.info("one")["limits"]["tasks"], json!(129));
}

#[test]
fn two_installations_do_not_share_a_scope() {
    let (one, two) = (Host::new("", ""), Host::new("", ""));
    one.create("same");
    two.create("same");
    assert_ne!(one.group("same").parent(), two.group("same").parent());
}
