//! An ordinary user: devices through groups, limits through the user's own systemd.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::host::{Host, group_of, leave_little_memory, read, until};
use crate::user::{User, said_by};

#[test]
fn a_user_has_devices_and_limits_without_root() {
    let ann = User::new("ann", &["kvm"]);
    let host = Host::of_user(&ann, "");
    for (finding, detail) in [("acceleration", "kvm"), ("guest link", "vsock"), ("limits", "")] {
        let found = host.finding(finding);
        assert_eq!(found["standing"], "ok", "{found}");
        assert!(found["detail"].as_str().unwrap().starts_with(detail), "{found}");
    }

    host.create("one");
    let group = host.group("one");
    let above = format!("user@{0}.service/agentiso.slice", ann.uid());
    assert!(group.to_string_lossy().contains(&above), "{group:?}");
    assert_eq!(read(&group, "memory.max"), ((256u64 + 192) << 20).to_string());
    assert_eq!(host.info("one")["limits"]["tasks"], json!(129));
    host.run(&["fork", "one", "--name", "two"]);
    let fork = host.group("two");
    assert_ne!(fork, group);

    leave_little_memory(&fork);
    let refusal = host.refusal(&["exec", "two", "--", "sh", "-c", "head -c 100M /dev/zero | tail"]);
    assert_eq!(refusal.code, "out_of_memory", "{refusal:?}");
    host.run(&["exec", "one", "--", "true"]);
    host.run(&["rm", "one", "two", "--force"]);
    until("their groups go", || !group.exists() && !fork.exists());
}

#[test]
fn a_user_without_access_to_devices_gets_a_remedy() {
    let bob = User::new("bob", &[]);
    let host = Host::of_user(&bob, "");
    for (finding, used) in [("acceleration", "tcg"), ("guest link", "virtio-serial")] {
        let found = host.finding(finding);
        assert!(found["detail"].as_str().unwrap().starts_with(used), "{found}");
        assert!(found["fix"].as_str().unwrap().contains("usermod -aG kvm"), "{found}");
    }
}

#[test]
fn a_revoked_delegation_is_reported_and_running_machines_continue() {
    let ann = User::new("ann", &["kvm"]);
    let host = Host::of_user(&ann, "[resources]\ncgroup_required = true\n");
    host.create("one");
    let scope = host.group("one").parent().unwrap().to_owned();
    chown(&scope, "root");
    let refusal = host.refusal(&["create", "--name", "two"]);
    assert_eq!(refusal.code, "limits_unavailable", "{refusal:?}");
    host.run(&["exec", "one", "--", "true"]);
    assert_eq!(host.machines().len(), 1);

    chown(&scope, "ann");
    host.create("two");
    assert_eq!(group_of(host.pid("two")).parent(), Some(&*scope));
}

#[test]
fn a_user_can_use_volumes_with_permissions_on_the_pool() {
    let ann = User::new("ann", &["kvm"]);
    let host = Host::of_user(&ann, "");
    let refusal = host.refusal(&["create", "--name", "one"]);
    assert_eq!(refusal.code, "permission_denied", "{refusal:?}");
    let dataset = std::env::var("AGENTISO_TEST_ZFS").expect("AGENTISO_TEST_ZFS");
    assert!(refusal.remedy.contains("zfs allow") && refusal.remedy.ends_with(&dataset), "{refusal:?}");

    let _leave = ann.leave_for(&dataset, &refusal.remedy);
    let before = volumes(&dataset);
    host.create("one");
    assert!(volumes(&dataset) > before);
    host.run(&["exec", "one", "--", "sh", "-c", "echo then > /root/when"]);
    host.run(&["snapshot", "create", "one", "then", "--memory"]);
    host.run(&["exec", "one", "--", "sh", "-c", "echo now > /root/when"]);
    host.run(&["fork", "one", "--name", "two"]);
    host.run(&["grow", "one", "12"]);
    assert_eq!(host.sh("one", "df -B1G --output=size / | tail -1").trim(), "12");
    host.run(&["snapshot", "restore", "one", "then"]);
    // The source is removed, and its fork is promoted.
    host.run(&["rm", "one", "--force"]);
    host.run(&["stop", "two"]);
    host.run(&["start", "two"]);
    assert_eq!(host.sh("two", "cat /root/when"), "now");
}

fn volumes(dataset: &str) -> usize {
    said_by(&["zfs", "list", "-Hr", "-t", "volume", "-o", "name", dataset]).lines().count()
}

/// Changes the owner of a cgroup, and with it the right to create cgroups in it and move processes there.
fn chown(group: &Path, owner: &str) {
    for path in [group.to_owned(), group.join("cgroup.procs"), group.join("cgroup.subtree_control")] {
        assert!(Command::new("chown").arg(owner).arg(&path).status().unwrap().success(), "{path:?}");
    }
}
