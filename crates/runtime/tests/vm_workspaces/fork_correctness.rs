//! The table in `docs/fork-correctness.md`, row by row: what a clone must not share with its siblings or its past.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentiso_core::Code;
use agentiso_runtime::workspaces::ForkSource;
use agentiso_testing::pace;

use crate::common::{Home, open, silent};
use crate::same_instant::{assert_in_step, count};

/// Allowed difference between a guest's clock and ours: a loaded host schedules a guest late.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// Sets a guest's clock wrong by years, so that it can only be right if it was set.
const WRONG_CLOCK: &str = "date -s @1000000000 >/dev/null";

/// Values that must differ between machines: random bytes of the kernel, names, ids and an address, one per line.
const DIFFERENT: &str = "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/hostname /etc/machine-id \
                         /proc/sys/kernel/random/boot_id /sys/class/net/e*/address";

/// Fills some memory whose checksum can be compared later.
const FILL: &str = "head -c 2000000 /dev/urandom > /dev/shm/blob";
const DIGEST: &str = "sha256sum /dev/shm/blob";

const UPTIME: &str = "cut -d' ' -f1 /proc/uptime";

/// A server that answers with a counter, and a client that keeps its connection.
const TALK: &str = r#"
use Socket;
my $address = sockaddr_in(7000, INADDR_LOOPBACK);
socket my $listener, PF_INET, SOCK_STREAM, 0;
bind($listener, $address) && listen($listener, 1) or die $!;
socket my $client, PF_INET, SOCK_STREAM, 0;
connect $client, $address or die $!;
accept my $server, $listener;
unless (fork) {
    while (sysread $server, my $asked, 1) { syswrite $server, ++$n . "\n" }
    exit;
}
while (syswrite $client, "x") {
    sysread $client, my $answer, 99 or die $!;
    open my $shown, ">", "/dev/shm/n";
    print $shown $answer;
    close $shown;
    select undef, undef, undef, $ARGV[0];
}
"#;

// Starting machines is slow on an emulated CPU, so one test checks everything that needs the same ones.
#[tokio::test(flavor = "multi_thread")]
async fn forks_and_their_source_share_nothing_that_must_differ() {
    let home = Home::new().await;
    home.create("source").await;
    let talk = format!("cat > /root/talk <<'END'\n{TALK}\nEND\nperl /root/talk {} >/dev/null 2>&1 &", pace());
    home.sh("source", &talk).await;
    let digest = home.sh("source", &format!("{FILL}; {DIGEST}")).await;
    home.sh("source", WRONG_CLOCK).await;
    count(&home, "source", pace()).await;
    let before = goes_on(&home, "source", [3, 3]).await;
    home.fork("source", "fork", 2).await;

    let mut answers = Vec::new();
    for name in ["source", "fork-1", "fork-2"] {
        // Programs, and a connection between two of them, continue independently in each.
        let then = goes_on(&home, name, before).await;
        goes_on(&home, name, then).await;
        // The same memory, no network address, and different identities.
        let line = format!("{DIGEST}; ip -o addr show scope global; {DIFFERENT}");
        let said = asked_with_the_right_time(&home, name, &line).await;
        let own = said.strip_prefix(&digest).unwrap_or_else(|| panic!("{name}: {said}"));
        assert_eq!(own.lines().count(), 5, "{name}: {own}");
        answers.extend(own.lines().map(str::to_owned));
        // Last, because dropping the caches makes a machine slow.
        assert_in_step(&home, name).await;
    }
    let different: BTreeSet<&String> = answers.iter().collect();
    assert_eq!(different.len(), answers.len(), "{answers:#?}");
}

/// Waits until both counters exceed `beyond`, and returns them.
async fn goes_on(home: &Home, name: &str, beyond: [u64; 2]) -> [u64; 2] {
    let numbers = |lines: &str| {
        let mut numbers = lines.lines().map(|line| line.trim().parse().unwrap_or(0));
        [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
    };
    let pleases = |lines: &str| numbers(lines).iter().zip(beyond).all(|(number, beyond)| *number > beyond);
    numbers(&home.until(name, "cat /dev/shm/count /dev/shm/n 2>/dev/null || true", pleases).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_machine_has_the_right_time_and_memory_that_fits_its_disk() {
    let home = Home::new().await;
    home.create("m").await;
    home.sh("m", "echo first > /root/file").await;
    home.sh("m", FILL).await;
    let digest = home.sh("m", DIGEST).await;
    home.sh("m", WRONG_CLOCK).await;
    home.snapshot("m", "first", true).await;
    let uptime_then = uptime(&home, "m").await;
    home.sh("m", "echo second > /root/file; sync; rm /dev/shm/blob").await;
    // If this time had passed for the machine, it would be ahead by as much.
    let taken = Instant::now();
    while taken.elapsed() < CLOCK_TOLERANCE * 3 {
        home.sh("m", "true").await;
    }
    let restoring = Instant::now();
    home.restore("m", "first").await;
    // No time has passed for the machine: its monotonic clock continues from the snapshot.
    let uptime_now = asked_with_the_right_time(&home, "m", UPTIME).await.trim().parse::<f64>().unwrap();
    let gone_by = restoring.elapsed() + CLOCK_TOLERANCE;
    assert!(uptime_now < uptime_then + gone_by.as_secs_f64(), "{uptime_then} {uptime_now} {gone_by:?}");
    assert_eq!(home.sh("m", DIGEST).await, digest);
    assert_eq!(home.sh("m", "cat /root/file").await, "first\n");
    assert_eq!(home.sh("m", "sync; echo 3 > /proc/sys/vm/drop_caches; cat /root/file").await, "first\n");
}

async fn uptime(home: &Home, name: &str) -> f64 {
    home.sh(name, UPTIME).await.trim().parse().unwrap()
}

/// The output of a shell line, in a machine whose clock must be right while it runs.
async fn asked_with_the_right_time(home: &Home, name: &str, line: &str) -> String {
    let ours = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = ours();
    let said = home.sh(name, &format!("date +%s%N; {line}")).await;
    let after = ours();
    let (guest, said) = said.split_once('\n').unwrap();
    let guest = Duration::from_nanos(guest.parse().unwrap());
    assert!(
        guest + CLOCK_TOLERANCE > before && guest < after + CLOCK_TOLERANCE,
        "{name}: {guest:?} between {before:?} and {after:?}"
    );
    said.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_another_qemu_is_rejected_and_its_disk_is_usable() {
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
    let refused = upgraded
        .restore(home.id("m"), home.snapshot_id("m", "s").unwrap(), false, &silent())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::SnapshotIncompatible);
    // The workspace is unchanged.
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
    let of_snapshot = ForkSource::Snapshot { id: home.snapshot_id("a", "s").unwrap(), disk_only: false };
    home.fork_from("a", of_snapshot, "d", 1).await;
    let of_disk = ForkSource::Snapshot { id: home.snapshot_id("a", "s").unwrap(), disk_only: true };
    home.fork_from("a", of_disk, "e", 1).await;
    home.remove("a").await;
    home.remove("b").await;
    assert_eq!(home.sh("c", "cat /root/file /dev/shm/file").await, "b\na\n");
    assert_eq!(home.sh("d", "cat /root/file /dev/shm/file").await, "a\na\n");
    assert_eq!(home.sh("e", "cat /root/file; ls /dev/shm").await, "a\n");
    let c = home.workspaces.info(home.id("c")).unwrap();
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
