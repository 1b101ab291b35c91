//! The table in `docs/fork-correctness.md`, row by row: what a clone must not share with its sibling or its past.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentiso_core::Code;
use agentiso_runtime::workspaces::ForkSource;

use crate::common::{Home, open, silent};

/// How far a guest's clock may be from ours: a loaded host schedules a guest late.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Asks a machine and two forks of it, and expects three answers to each line.
async fn all_differ(lines: &[&str]) {
    let home = Home::new().await;
    home.create("source").await;
    home.fork("source", "fork", 2).await;
    for line in lines {
        let mut answers = BTreeSet::new();
        for name in ["source", "fork-1", "fork-2"] {
            let answer = home.sh(name, line).await;
            assert!(!answer.trim().is_empty(), "{line} says nothing in {name}");
            answers.insert(answer);
        }
        assert_eq!(answers.len(), 3, "{line}: {answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_of_the_kernel_differ() {
    all_differ(&["head -c 32 /dev/urandom | od -An -tx1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_ids_differ() {
    all_differ(&[
        "hostname",
        "cat /etc/machine-id",
        "cat /proc/sys/kernel/random/boot_id",
        "cat /sys/class/net/e*/address",
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_address_is_shared_because_there_is_none() {
    let home = Home::new().await;
    home.create("source").await;
    home.fork("source", "fork", 1).await;
    for name in ["source", "fork"] {
        let addresses = home.sh(name, "ip -o addr show scope global").await;
        assert_eq!(addresses, "", "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_a_restored_machine_is_right_and_its_uptime_does_not_jump() {
    let home = Home::new().await;
    home.create("m").await;
    home.snapshot("m", "then", true).await;
    let uptime_then = uptime(&home, "m").await;
    let taken = Instant::now();
    // A clock that were not set would now be behind by this much.
    let behind = CLOCK_TOLERANCE * 3;
    while taken.elapsed() < behind {
        home.sh("m", "true").await;
    }
    let restoring = Instant::now();
    home.workspaces.restore("m", "then", false, &silent()).await.unwrap();
    let (before, now, after) = clocks(&home, "m").await;
    assert!(now + CLOCK_TOLERANCE > before && now < after + CLOCK_TOLERANCE, "{before:?} {now:?} {after:?}");
    // To the machine no time had passed: what it measures durations with goes on from where it was.
    let uptime_now = uptime(&home, "m").await;
    let gone_by = restoring.elapsed() + CLOCK_TOLERANCE;
    assert!(uptime_now < uptime_then + gone_by.as_secs_f64(), "{uptime_then} {uptime_now} {gone_by:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_right_time_and_its_source_loses_none() {
    let home = Home::new().await;
    home.create("source").await;
    home.fork("source", "fork", 1).await;
    for name in ["source", "fork"] {
        let (before, now, after) = clocks(&home, name).await;
        assert!(
            now + CLOCK_TOLERANCE > before && now < after + CLOCK_TOLERANCE,
            "{name}: {before:?} {now:?}"
        );
    }
}

async fn uptime(home: &Home, name: &str) -> f64 {
    home.sh(name, "cut -d' ' -f1 /proc/uptime").await.trim().parse().unwrap()
}

/// Our clock before, the guest's, and ours after.
async fn clocks(home: &Home, name: &str) -> (Duration, Duration, Duration) {
    let ours = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = ours();
    let guest: u64 = home.sh(name, "date +%s%N").await.trim().parse().unwrap();
    (before, Duration::from_nanos(guest), ours())
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_inside_go_on_in_both_and_do_not_meet() {
    let home = Home::new().await;
    home.create("source").await;
    // A server that answers with a count of its own, and one client that keeps its connection.
    let server = r#"
import socket, threading, time
listener = socket.create_server(("127.0.0.1", 7000))
client = socket.create_connection(("127.0.0.1", 7000))
peer, _ = listener.accept()
def serve():
    n = 0
    while peer.recv(1):
        n += 1
        peer.sendall(b"%d\n" % n)
threading.Thread(target=serve, daemon=True).start()
answers = client.makefile()
while True:
    client.sendall(b"x")
    open("/dev/shm/n", "w").write(answers.readline())
"#;
    home.sh(
        "source",
        &format!("cat > /root/s.py <<'END'\n{server}\nEND\npython3 /root/s.py >/dev/null 2>&1 &"),
    )
    .await;
    let grown = |line: &str| line.trim().parse::<u64>().is_ok_and(|n| n > 3);
    home.until("source", "cat /dev/shm/n 2>/dev/null || true", grown).await;
    home.fork("source", "fork", 1).await;
    for name in ["source", "fork"] {
        let then: u64 = home.until(name, "cat /dev/shm/n", grown).await.trim().parse().unwrap();
        home.until(name, "cat /dev/shm/n", |now| now.trim().parse().is_ok_and(|now: u64| now > then)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_cache_of_a_restored_machine_fits_its_disk() {
    let home = Home::new().await;
    home.create("m").await;
    home.sh("m", "echo first > /root/file").await;
    home.snapshot("m", "first", true).await;
    home.sh("m", "echo second > /root/file; sync").await;
    home.workspaces.restore("m", "first", false, &silent()).await.unwrap();
    assert_eq!(home.sh("m", "cat /root/file").await, "first\n");
    assert_eq!(home.sh("m", "sync; echo 3 > /proc/sys/vm/drop_caches; cat /root/file").await, "first\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_another_qemu_is_refused_and_its_disk_is_not() {
    let home = Home::new().await;
    home.create("m").await;
    home.sh("m", "echo kept > /root/file").await;
    home.snapshot("m", "s", true).await;
    home.sh("m", "echo lost > /root/file").await;
    let real = std::fs::canonicalize("/usr/bin/qemu-system-x86_64").unwrap();
    let other = home.home.path().join("qemu-system-x86_64");
    let script = format!(
        "#!/bin/sh\n[ \"$*\" != --version ] || exec echo 'QEMU emulator version 7.2.99 (another)'\nexec {} \"$@\"\n",
        real.display()
    );
    std::fs::write(&other, script).unwrap();
    std::fs::set_permissions(&other, PermissionsExt::from_mode(0o755)).unwrap();
    home.home.configure(&format!("[vm]\nqemu = {:?}\n", other.to_str().unwrap()));
    let upgraded = open(home.home.path()).await;
    let refused = upgraded.restore("m", "s", false, &silent()).await.unwrap_err();
    assert_eq!(refused.code(), Code::SnapshotIncompatible);
    // Nothing happened to it.
    assert_eq!(home.sh("m", "cat /root/file").await, "lost\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_of_forks_and_of_snapshots_outlive_their_source() {
    let home = Home::new().await;
    home.create("a").await;
    home.sh("a", "echo a > /root/file; echo a > /dev/shm/file").await;
    home.snapshot("a", "s", true).await;
    home.fork("a", "b", 1).await;
    home.sh("b", "echo b > /root/file").await;
    home.fork("b", "c", 1).await;
    let of_snapshot = ForkSource::Snapshot { name: "s".to_owned(), disk_only: false };
    home.fork_from("a", of_snapshot, "d", 1).await;
    let of_disk = ForkSource::Snapshot { name: "s".to_owned(), disk_only: true };
    home.fork_from("a", of_disk, "e", 1).await;
    home.remove("a").await;
    home.remove("b").await;
    assert_eq!(home.sh("c", "cat /root/file /dev/shm/file").await, "b\na\n");
    assert_eq!(home.sh("d", "cat /root/file /dev/shm/file").await, "a\na\n");
    assert_eq!(home.sh("e", "cat /root/file; ls /dev/shm").await, "a\n");
    let c = home.workspaces.info("c").unwrap();
    let from = c.forked_from.unwrap();
    assert_eq!((from.name.as_str(), from.depth), ("b", 2));
    for name in ["c", "d", "e"] {
        home.remove(name).await;
    }
    for dir in ["disks", "memory", "workspaces", "bases"] {
        assert_eq!(home.files(dir), Vec::<String>::new());
    }
    assert_eq!(home.home.processes(), Vec::<u32>::new());
}
