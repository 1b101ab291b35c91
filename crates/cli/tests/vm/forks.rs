//! Forks on real machines.

use std::collections::HashSet;

use crate::place::{Counter, Place};

/// Everything that must differ between two machines, one value per line.
const IDENTITY: &str = "hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id /sys/class/net/eth0/address; \
                        head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'";

#[test]
fn source_and_fork_continue_independently() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    let before = counter.beyond(3);
    let process = place.json(&["info", "web"])["pid"].clone();
    let made = place.json(&["fork", "web", "--name", "copy"]);
    assert_eq!(
        (&made["success_count"], &made["failure_count"], &made["name"]),
        (&1.into(), &0.into(), &"copy".into())
    );
    assert!(made["source_pause_ms"].as_f64().unwrap() > 0.0);
    let copy = counter.in_fork("copy");
    let there = copy.beyond(before);
    copy.say("copy");
    assert_eq!(counter.words(), "first");
    // Stopping the counter in the source does not affect the fork.
    let here = counter.beyond(before);
    place.sh("web", "kill -9 $(cat /root/counter); echo web > /root/who");
    copy.beyond(here.max(there) + 5);
    copy.is_gapless();
    counter.is_gapless();
    assert_eq!(place.sh("copy", "test -e /root/who || echo apart"), "apart");
    assert_eq!(place.json(&["info", "web"])["pid"], process);
    assert_eq!(place.json(&["info", "copy"])["forked_from"]["source_workspace_name"], "web");
    let (web, copy) = (place.sh("web", IDENTITY), place.sh("copy", IDENTITY));
    assert_eq!((web.lines().next(), copy.lines().next()), (Some("web"), Some("copy")));
    let both: HashSet<&str> = web.lines().chain(copy.lines()).collect();
    assert_eq!(both.len(), 10, "{web}\n{copy}");
}

#[test]
fn several_forks_of_one_call_differ_and_outlive_their_source() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    let before = counter.beyond(3);
    place.refused(&["fork", "web", "--count", "0"]).is("invalid_argument", &[]);
    place.refused(&["fork", "web", "--count", "101"]).is("invalid_argument", &["100"]);
    place.refused(&["fork", "web", "--name", "web"]).is("workspace_exists", &["web"]);
    let said = place.text(&["fork", "web", "--count", "3", "--all-or-nothing"]);
    assert!(said.contains("3 of 3 in ") && said.contains("downtime of web "), "{said}");
    let names: HashSet<String> = place.names().into_iter().collect();
    assert_eq!(names, HashSet::from(["web", "web-1", "web-2", "web-3"].map(str::to_owned)));
    place.json(&["rm", "--force", "web"]);
    let mut seen = HashSet::new();
    for fork in ["web-1", "web-2", "web-3"] {
        let count = counter.in_fork(fork).beyond(before);
        counter.in_fork(fork).beyond(count);
        let identity = place.sh(fork, IDENTITY);
        assert!(identity.lines().all(|line| seen.insert(line.to_owned())), "{identity}");
    }
    assert_eq!(seen.len(), 15);
}

#[test]
fn forks_of_snapshots_and_of_forks_start_from_the_right_state() {
    let place = Place::with("web");
    let counter = Counter::start(&place, "web");
    place.json(&["snapshot", "create", "web", "then", "--memory"]);
    counter.say("later");
    place.sh("web", "touch /root/later");

    place.json(&["fork", "web", "then", "--name", "whole"]);
    let whole = place.json(&["info", "whole"]);
    assert_eq!((&whole["tier"], &whole["source"]), (&"snapshot".into(), &"web@then".into()));
    assert_eq!(whole["forked_from"]["snapshot_name"], "then");
    let copy = counter.in_fork("whole");
    copy.beyond(copy.beyond(0));
    assert_eq!((copy.words(), copy.pid()), ("first".to_owned(), counter.pid()));
    place.json(&["fork", "web", "then", "--disk-only", "--name", "disk"]);
    let dead = "kill -0 $(cat /root/counter) 2>/dev/null || echo gone; ls /root; hostname";
    assert_eq!(place.sh("disk", dead), "gone\ncount\ncounter\ndisk");

    place.refused(&["snapshot", "rm", "web", "then"]).is("snapshot_in_use", &["whole", "disk"]);
    place.refused(&["fork", "web", "than"]).is("snapshot_not_found", &["then"]);
    let there = copy.beyond(0);
    place.json(&["fork", "whole", "--name", "grandchild"]);
    place.json(&["rm", "--force", "web", "whole", "disk"]);
    let grandchild = counter.in_fork("grandchild");
    grandchild.beyond(grandchild.beyond(there));
    grandchild.is_gapless();
    assert_eq!(place.json(&["info", "grandchild"])["forked_from"]["depth"], 2);
    assert!(place.text(&["ls"]).contains("\twhole"), "its source is listed");
}

#[test]
fn a_stopped_workspace_can_be_forked() {
    let place = Place::with("web");
    place.sh("web", "echo kept > /root/file");
    place.json(&["stop", "web"]);
    place.json(&["fork", "web"]);
    assert_eq!(place.sh("web-1", "cat /root/file; echo changed > /root/file; hostname"), "kept\nweb-1");
    place.json(&["start", "web"]);
    assert_eq!(place.sh("web", "cat /root/file"), "kept");
}
