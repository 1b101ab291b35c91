//! Snapshots on real machines: creating, restoring, removing.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;

use crate::common::Started;
use crate::place::{Counter, Place};

#[test]
fn a_disk_snapshot_can_be_restored_while_running_and_stopped() {
    let place = Place::with("web");
    place.sh("web", "echo good > /root/file");
    let taken = place.json(&["snapshot", "create", "web", "good", "--description", "all is well"]);
    assert_eq!((&taken["has_memory"], &taken["memory_bytes"]), (&false.into(), &serde_json::Value::Null));
    place.sh("web", "echo bad > /root/file; touch /run/mark");
    let restored = place.json(&["snapshot", "restore", "web", "good"]);
    assert_eq!((&restored["state"], &restored["memory_restored"]), (&"running".into(), &false.into()));
    assert_eq!(
        place.sh("web", "cat /root/file; test -e /run/mark || echo started anew"),
        "good\nstarted anew"
    );

    place.sh("web", "echo worse > /root/file");
    place.json(&["stop", "web"]);
    place.json(&["snapshot", "create", "web", "worse"]);
    place.refused(&["snapshot", "create", "web", "x", "--memory"]).is("workspace_not_running", &["start"]);
    assert_eq!(place.json(&["snapshot", "restore", "web", "good"])["state"], "stopped");
    place.json(&["start", "web"]);
    assert_eq!(place.sh("web", "cat /root/file"), "good");
    place.json(&["snapshot", "restore", "web", "worse"]);
    assert_eq!(place.sh("web", "cat /root/file"), "worse");
}

#[test]
fn processes_continue_from_a_snapshot_with_memory() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    let pid = counter.pid();
    // A wrong clock in the snapshot must be corrected on restore.
    place.sh("web", "date -s @1000000000 >/dev/null");
    let before = counter.beyond(3);
    let taken = place.json(&["snapshot", "create", "web", "then", "--memory"]);
    assert!(taken["pause_ms"].as_f64().unwrap() > 0.0 && taken["memory_bytes"].as_u64().unwrap() > 0);
    counter.say("later");
    assert_eq!(counter.words(), "first later");
    place.sh("web", "rm -rf /root/* /etc; kill -9 -1");

    let restored = place.json(&["snapshot", "restore", "web", "then"]);
    assert_eq!((&restored["state"], &restored["memory_restored"]), (&"running".into(), &true.into()));
    assert_eq!(place.json(&["info", "web"])["tier"], "snapshot");
    counter.beyond(counter.beyond(before));
    counter.is_gapless();
    assert_eq!((counter.words(), counter.pid()), ("first".to_owned(), pid));
    let guest: u64 = place.sh("web", "date +%s").parse().unwrap();
    let host = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(host.abs_diff(guest) < 30, "the guest says {guest}, the host {host}");
}

#[test]
fn a_stopped_workspace_can_restore_a_snapshot_with_or_without_memory() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    let (pid, before) = (counter.pid(), counter.beyond(3));
    place.json(&["snapshot", "create", "web", "then", "--memory"]);
    counter.say("later");
    place.json(&["stop", "web"]);
    assert_eq!(place.json(&["snapshot", "restore", "web", "then"])["state"], "running");
    counter.beyond(counter.beyond(before));
    assert_eq!((counter.words(), counter.pid()), ("first".to_owned(), pid));
    assert_eq!(place.json(&["snapshot", "restore", "web", "then", "--disk-only"])["memory_restored"], false);
    assert_eq!(place.sh("web", "kill -0 $(cat /root/counter) 2>/dev/null || echo gone"), "gone");
}

#[test]
fn newer_snapshots_are_kept_and_any_can_be_removed() {
    let place = Place::with("web");
    for name in ["a", "b", "c"] {
        place.sh("web", &format!("echo {name} > /root/file"));
        place.json(&["snapshot", "create", "web", name, "--memory"]);
    }
    place.refused(&["snapshot", "create", "web", "b"]).is("snapshot_exists", &["b"]);
    place.json(&["snapshot", "restore", "web", "a"]);
    place.json(&["snapshot", "create", "web", "d"]);
    let parents = || {
        let snapshots = place.snapshots("web");
        let pair = |view: &serde_json::Value| {
            assert!(
                view["used_bytes"].as_u64().unwrap() <= view["referenced_bytes"].as_u64().unwrap(),
                "{view}"
            );
            format!("{}<{}", view["name"].as_str().unwrap(), view["parent"].as_str().unwrap_or("-"))
        };
        snapshots.iter().map(pair).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(parents(), "a<- b<a c<b d<a");
    let drawn = place.text(&["snapshot", "ls", "web"]);
    let names: Vec<&str> = drawn.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(names, ["NAME", "a", "├─ b", "│  └─ c", "└─ d *"]);

    place.refused(&["snapshot", "rm", "web", "bb"]).is("snapshot_not_found", &["bb"]);
    assert_eq!(place.json(&["snapshot", "rm", "web", "b"])["snapshot_name"], "b");
    assert_eq!(parents(), "a<- c<a d<a");
    for name in ["c", "a", "d"] {
        place.json(&["snapshot", "restore", "web", name]);
        let expected = if name == "d" { "a" } else { name };
        assert_eq!(place.sh("web", "cat /root/file"), expected);
    }
    place.text(&["snapshot", "rm", "web", "a"]);
    place.text(&["snapshot", "rm", "web", "d"]);
    place.json(&["snapshot", "restore", "web", "c"]);
    assert_eq!(place.sh("web", "cat /root/file"), "c");
    assert_eq!(parents(), "c<-");
}

#[test]
fn a_failed_restore_does_not_change_the_machine() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    place.json(&["snapshot", "create", "web", "then", "--memory"]);
    let image = fs::read_dir(place.path().join("memory")).unwrap().next().unwrap().unwrap().path();
    let process = place.json(&["info", "web"])["pid"].clone();
    place.refused(&["snapshot", "restore", "web", "than"]).is("snapshot_not_found", &["then"]);
    for name in ["map", "pack", "device"] {
        let count = counter.beyond(0);
        let whole = fs::read(image.join(name)).unwrap();
        fs::write(image.join(name), &whole[..whole.len() / 2]).unwrap();
        let refusal = place.refused(&["snapshot", "restore", "web", "then"]);
        refusal.is("data_damaged", &["\"then\"", "--disk-only"]);
        assert_eq!(place.json(&["info", "web"])["pid"], process, "{name}: another machine");
        counter.beyond(count);
        counter.is_gapless();
        // A single flipped bit is detected too, by restores and by forks.
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 8;
        fs::write(image.join(name), &flipped).unwrap();
        for verb in [&["snapshot", "restore", "web", "then"][..], &["fork", "web", "then"]] {
            place.refused(verb).is("data_damaged", &["\"then\"", "checksum", "--disk-only"]);
        }
        assert_eq!(place.json(&["info", "web"])["pid"], process, "{name}: another machine");
        counter.beyond(counter.beyond(count));
        counter.is_gapless();
        fs::write(image.join(name), &whole).unwrap();
    }
    assert_eq!(place.processes().len(), 1);
    place.json(&["snapshot", "restore", "web", "then"]);
    counter.beyond(counter.beyond(0));
}

#[test]
fn a_snapshot_is_completed_if_its_client_is_interrupted() {
    let place = Place::with("web");
    let id = place.json(&["info", "web"])["workspace_id"].as_str().unwrap().to_owned();
    // While the test holds the lock, the daemon cannot proceed.
    let path = place.path().canonicalize().unwrap().join(format!("workspaces/{id}.lock"));
    let lock = File::options().create(true).truncate(false).write(true).open(&path).unwrap();
    lock.lock().unwrap();
    let daemon = place.daemon().unwrap();
    let mut command = place.command(&["snapshot", "create", "web", "whole", "--memory"]);
    let started = Started(command.stderr(Stdio::piped()).spawn().unwrap());
    // The daemon has the request once it waits for the lock.
    while !has_open(daemon, &path) {
        std::thread::yield_now();
    }
    started.signal("INT");
    let (code, said) = started.finish();
    assert!(code == Some(130) && said.contains("daemon finishes"), "{code:?} {said}");
    lock.unlock().unwrap();
    while place.snapshots("web").is_empty() {
        std::thread::yield_now();
    }
    assert_eq!(place.snapshots("web")[0]["name"], "whole");
    place.json(&["snapshot", "restore", "web", "whole"]);
}

/// Whether a process has a file open.
fn has_open(process: u32, path: &Path) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap().flatten();
    open.into_iter().any(|fd| fs::read_link(fd.path()).is_ok_and(|opened| opened == path))
}
