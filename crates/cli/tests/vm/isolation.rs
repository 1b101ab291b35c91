//! What the QEMU processes of real machines can see of the host.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::place::Place;

/// The QEMU of a running workspace.
struct Seen {
    pid: u32,
    uid: u32,
}

fn seen(pid: u32) -> Seen {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(field("CapEff:"), ["0000000000000000"]);
    assert_eq!(field("NoNewPrivs:"), ["1"]);
    assert!(!field("Groups:").contains(&"0".to_owned()), "QEMU is in root's group");
    Seen { pid, uid: field("Uid:")[0].parse().unwrap() }
}

fn namespace(pid: &str, kind: &str) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The path of a host file as seen by a process.
fn through(pid: u32, path: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap())
}

fn names(dir: &Path) -> BTreeSet<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The mounts of a process, and whether they are writable.
fn mounts(pid: u32) -> Vec<(PathBuf, bool)> {
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let mount = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        (PathBuf::from(fields[4]), fields[5].split(',').any(|option| option == "rw"))
    };
    text.lines().map(mount).collect()
}

#[test]
fn each_qemu_sees_only_its_own_files_in_every_state_of_its_machine() {
    let place = Place::with("web");
    place.sh("web", "echo first > /root/file; sync");
    place.json(&["snapshot", "create", "web", "then", "--memory"]);
    place.json(&["fork", "web", "--name", "live"]);
    place.json(&["fork", "web", "then", "--name", "earlier"]);
    place.json(&["snapshot", "restore", "web", "then"]);
    let home = place.path().canonicalize().unwrap();
    let all = names(&home.join("disks"));
    let qemus: Vec<Seen> = place.processes().into_iter().map(seen).collect();
    assert_eq!(qemus.len(), 3);
    let mut own_disks = BTreeSet::new();
    for qemu in &qemus {
        let pid = qemu.pid.to_string();
        for kind in ["mnt", "net", "ipc"] {
            assert_ne!(namespace(&pid, kind), namespace("self", kind), "{kind}");
        }
        for hidden in ["run", "state.db", "workspaces", "memory", "templates", "config.toml"] {
            assert!(!through(qemu.pid, &home.join(hidden)).exists(), "QEMU sees {hidden}");
        }
        for hidden in ["/proc", "/sys", "/etc/passwd", "/home", "/tmp", "/run", "/.host"] {
            assert!(!through(qemu.pid, Path::new(hidden)).exists(), "QEMU sees {hidden}");
        }
        assert_eq!(names(&through(qemu.pid, Path::new("/etc"))), BTreeSet::from(["ld.so.cache".to_owned()]));
        let writable: Vec<PathBuf> =
            mounts(qemu.pid).into_iter().filter(|(_, writable)| *writable).map(|(path, _)| path).collect();
        let allowed = [Path::new("/dev"), &home.join("disks")];
        let is_allowed = |path: &PathBuf| allowed.iter().any(|dir| path.starts_with(dir));
        assert!(writable.iter().all(is_allowed), "{writable:?}");
        // It sees the disks of its backing chain, and owns one of them.
        let disks = through(qemu.pid, &home.join("disks"));
        let seen = names(&disks);
        assert!(seen.len() < all.len() && seen.is_subset(&all), "{seen:?} of {all:?}");
        if is_root() {
            let is_own = |name: &&String| fs::metadata(disks.join(name)).unwrap().uid() == qemu.uid;
            let own: Vec<&String> = seen.iter().filter(is_own).collect();
            assert_eq!(own.len(), 1, "{own:?}");
            own_disks.insert(own[0].clone());
        }
    }
    if is_root() {
        let users: BTreeSet<u32> = qemus.iter().map(|qemu| qemu.uid).collect();
        assert_eq!(users.len(), qemus.len(), "machines share users");
        assert!(!users.contains(&0));
        assert_eq!(own_disks.len(), qemus.len(), "machines share disks");
    }
    for name in ["live", "earlier", "web"] {
        assert_eq!(place.sh(name, "cat /root/file"), "first");
    }
}

#[test]
fn a_new_daemon_can_snapshot_a_machine_and_file_owners_stay_correct() {
    let place = Place::with("web");
    let qemu = seen(place.processes()[0]);
    place.json(&["daemon", "stop"]);
    place.sh("web", "echo kept > /root/file; sync");
    place.json(&["snapshot", "create", "web", "one", "--memory"]);
    place.sh("web", "echo lost > /root/file; sync");
    place.json(&["snapshot", "create", "web", "two"]);
    assert_eq!(place.processes(), [qemu.pid], "it is still the same machine");
    let disks = || {
        let entries = fs::read_dir(place.path().join("disks")).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|kind| kind != "json")).collect::<Vec<_>>()
    };
    let owned_by = |uid: u32| {
        let is_owned = |path: &&PathBuf| fs::symlink_metadata(path).unwrap().uid() == uid;
        disks().iter().filter(is_owned).count()
    };
    if is_root() {
        assert_eq!(owned_by(qemu.uid), 1, "frozen disks belong to root");
    }
    place.json(&["snapshot", "restore", "web", "one"]);
    assert_eq!(place.sh("web", "cat /root/file"), "kept");
    place.json(&["stop", "web"]);
    let me = fs::metadata("/proc/self").unwrap().uid();
    assert_eq!(owned_by(me), disks().len(), "the disks of a stopped workspace belong to this user");
    place.json(&["start", "web"]);
    assert_eq!(place.sh("web", "cat /root/file"), "kept");
}

/// `agentiso` where it cannot create namespaces.
fn restricted(place: &Place, words: &[&str]) -> Command {
    let inner = place.command(words);
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]);
        command
    } else {
        let mut command = Command::new("unshare");
        let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
        command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", script]);
        command
    };
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn told(mut command: Command) -> Value {
    serde_json::from_slice(&command.output().unwrap().stdout).expect("one object")
}

#[test]
fn a_host_without_namespaces_is_reported_and_rejected_if_isolation_is_required() {
    let place = Place::new();
    let finding = |place: &Place| {
        let report = told(restricted(place, &["check", "--json"]));
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["name"] == "isolation").unwrap().clone()
    };
    let allowed = finding(&place);
    assert_eq!(allowed["standing"], "warning", "{allowed}");
    assert!(allowed["detail"].as_str().unwrap().contains("machines run without: "), "{allowed}");
    assert!(!allowed["fix"].as_str().unwrap().is_empty(), "{allowed}");
    let ran = restricted(&place, &["run", "--", "echo", "runs"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "runs\n", "{}", String::from_utf8_lossy(&ran.stderr));

    let strict = Place::new();
    fs::write(strict.path().join("config.toml"), "[vm]\nisolation = \"required\"\n").unwrap();
    assert_eq!(finding(&strict)["standing"], "missing");
    let refused = told(restricted(&strict, &["--json", "run", "--", "echo", "runs"]));
    assert_eq!(refused["error"]["code"], "isolation_unavailable", "{refused}");
}
