//! The memory and disk of a snapshot or fork are from the same instant.

use agentiso_runtime::workspaces::ForkSource;

use crate::common::Home;

/// Counts in memory and on the disk alternately, so that they differ by at most one, with a pause in between.
const LOCKSTEP: &str = r#"
use Fcntl;
sysopen(my $disk, "/root/count", O_RDWR | O_CREAT | O_DSYNC) or die $!;
sysopen(my $memory, "/dev/shm/count", O_RDWR | O_CREAT) or die $!;
while (1) {
    my $line = sprintf "%012d\n", ++$n;
    for my $file ($memory, $disk) { sysseek $file, 0, 0; syswrite $file, $line }
    select undef, undef, undef, $ARGV[0];
}
"#;

/// Reads both counters after counting has stopped. Drops the page cache, so that the disk is really read.
const ASK: &str = "read pid < /run/lockstep; kill -9 $pid; while kill -0 $pid 2>/dev/null; do :; done; \
                   cat /dev/shm/count; sync; echo 3 > /proc/sys/vm/drop_caches; cat /root/count";

/// Starts counting in a machine, with `pause` seconds between two numbers.
pub async fn count(home: &Home, name: &str, pause: f64) {
    let line = format!(
        "cat > /root/lockstep <<'END'\n{LOCKSTEP}\nEND\nperl /root/lockstep {pause} >/dev/null 2>&1 & echo $! > /run/lockstep"
    );
    home.sh(name, &line).await;
    running(home, name).await;
}

/// Waits until a machine has continued counting.
pub async fn running(home: &Home, name: &str) {
    let count = |line: &str| line.trim().parse::<u64>().unwrap_or(0);
    let then =
        count(&home.until(name, "cat /dev/shm/count 2>/dev/null || true", |line| count(line) > 0).await);
    home.until(name, "cat /dev/shm/count", |line| count(line) > then).await;
}

/// Stops counting, and asserts that memory and disk were from the same instant.
pub async fn assert_in_step(home: &Home, name: &str) {
    let said = home.sh(name, ASK).await;
    let numbers: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
    let [memory, disk] = numbers[..] else { panic!("{said:?}") };
    assert!(memory == disk || memory == disk + 1, "{name}: memory {memory}, disk {disk}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_and_disk_of_a_fork_are_from_the_same_instant() {
    let home = Home::new().await;
    home.create("source").await;
    count(&home, "source", 0.0).await;
    for number in 0..3 {
        let name = format!("fork{number}");
        home.fork("source", &name, 1).await;
        // It has continued counting, so its pending writes have reached its own disk.
        running(&home, &name).await;
        assert_in_step(&home, &name).await;
        running(&home, "source").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_memory_and_disk_of_a_restored_machine_are_from_the_same_instant() {
    let home = Home::new().await;
    home.create("m").await;
    count(&home, "m", 0.0).await;
    home.snapshot("m", "s", true).await;
    running(&home, "m").await;
    home.restore("m", "s").await;
    running(&home, "m").await;
    assert_in_step(&home, "m").await;
    // The same holds for a fork of the snapshot.
    let source = ForkSource::Snapshot { id: home.snapshot_id("m", "s").unwrap(), disk_only: false };
    home.fork_from("m", source, "fork", 1).await;
    running(&home, "fork").await;
    assert_in_step(&home, "fork").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_restored_byte_for_byte() {
    let home = Home::new().await;
    home.create("m").await;
    // Kept only in memory, and read back by a program that was started later.
    let digest = "sha256sum /dev/shm/blob | cut -d' ' -f1";
    let written = home.sh("m", &format!("head -c 40000000 /dev/urandom > /dev/shm/blob; {digest}")).await;
    home.snapshot("m", "s1", true).await;
    let changed = home
        .sh("m", &format!("dd if=/dev/urandom of=/dev/shm/blob bs=1M seek=7 count=3 conv=notrunc 2>&1 >/dev/null | grep -v records | grep -v copied; {digest}"))
        .await;
    home.snapshot("m", "s2", true).await;
    home.sh("m", "rm /dev/shm/blob").await;
    assert_ne!(written, changed);
    for (snapshot, expected) in [("s1", &written), ("s2", &changed), ("s1", &written)] {
        home.restore("m", snapshot).await;
        assert_eq!(&home.sh("m", digest).await, expected, "{snapshot}");
    }
    // Removing the first must not lose pages that the second only refers to.
    home.remove_snapshot("m", "s1").await;
    home.restore("m", "s2").await;
    assert_eq!(home.sh("m", digest).await, changed);
    let outcome = home.fork("m", "fork", 1).await;
    assert_eq!(outcome.forks.len(), 1);
    assert_eq!(home.sh("fork", digest).await, changed);
}
