//! Disk chains of running machines: they stay short, and their content does not change.

use std::os::unix::fs::MetadataExt;

use agentiso_core::ports::{DiskSource, Disks};
use agentiso_disks::Qcow2Layers;
use agentiso_meta::Meta;
use agentiso_testing::TestHome;
use serde_json::json;

use crate::common::*;

/// Checksums of everything a test wrote, read from the disk and not from memory.
const SUMS: &str = "echo 3 > /proc/sys/vm/drop_caches; sha256sum /root/f* /root/same";

impl Home {
    async fn maintain(&self) -> agentiso_runtime::workspaces::Maintained {
        self.workspaces.maintain(&silent()).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Number of files from which QEMU reads a workspace's disk.
    async fn depth(&self, workspace: &str) -> usize {
        let attached = self.workspaces.attach(self.id(workspace)).await.unwrap();
        let chain = attached.machine().disk_chain().await.unwrap();
        for file in &chain {
            assert!(file.exists(), "{} is open but deleted", file.display());
        }
        chain.len()
    }

    fn disk_bytes(&self) -> u64 {
        let own = |file: &String| {
            // A template's disk, whose name is a hash of its content, is shared.
            let name = file.rsplit('/').next().unwrap();
            let is_template = name.split('-').nth(2).is_some_and(|version| version.starts_with('8'));
            if is_template { 0 } else { std::fs::metadata(file).unwrap().blocks() * 512 }
        };
        self.files("disks").iter().map(own).sum()
    }
}

/// Only layers become chains, so these tests use them whatever the run is configured for.
async fn with_layers() -> Home {
    let home = TestHome::new();
    home.configure("[disks]\nbackend = \"qcow2\"\n");
    Home::of(home).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_of_many_snapshots_stays_short_and_their_content_is_kept() {
    let home = with_layers().await;
    home.create("one").await;
    let bare = home.depth("one").await;
    let mut sums = Vec::new();
    let mut deepest = 0;
    for number in 0..40 {
        let write = format!(
            "head -c 300000 /dev/urandom > /root/f{number}; head -c 200000 /dev/urandom > /root/same; sync"
        );
        home.sh("one", &write).await;
        sums.push(home.sh("one", SUMS).await);
        home.snapshot("one", &format!("s{number}"), false).await;
        if number % 3 == 2 {
            home.maintain().await;
            assert_eq!(home.sh("one", SUMS).await, sums[number], "after snapshot {number}");
        }
        deepest = deepest.max(home.depth("one").await);
    }
    assert!(home.maintain().await.moved >= 1);
    assert!(!home.workspaces.needs_maintenance());
    // Forty levels are five groups of eight.
    assert_eq!(home.depth("one").await, bare + 5);
    assert!(deepest <= bare + 18, "{deepest} files");
    for number in [0, 7, 8, 22, 39, 15] {
        home.restore("one", &format!("s{number}")).await;
        assert_eq!(home.sh("one", SUMS).await, sums[number], "of snapshot {number}");
        assert!(home.depth("one").await <= bare + 12);
    }
    assert!(home.workspaces.snapshots(home.id("one")).unwrap().len() == 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn space_of_a_removed_snapshot_is_freed_while_the_machine_runs() {
    let home = with_layers().await;
    home.create("one").await;
    let bare = home.depth("one").await;
    let write =
        "head -c 33554432 /dev/urandom > /root/same; cp /root/same /root/f; truncate -s 0 /root/f; sync";
    home.sh("one", write).await;
    home.snapshot("one", "a", false).await;
    // In place, so that the same blocks are overwritten.
    home.sh("one", "dd if=/dev/urandom of=/root/same bs=1M count=32 conv=notrunc status=none; sync").await;
    let sums = home.sh("one", SUMS).await;
    let before = home.disk_bytes();
    home.remove_snapshot("one", "a").await;
    assert!(home.workspaces.needs_maintenance());
    let done = home.maintain().await;
    assert_eq!((done.merged, done.moved), (1, 1));
    let freed = before - home.disk_bytes();
    assert!(freed >= 30 << 20, "{freed} bytes were freed");
    assert_eq!(home.depth("one").await, bare + 1);
    assert_eq!(home.sh("one", SUMS).await, sums);
    assert!(!home.workspaces.needs_maintenance());
    // The disk can still be written to, frozen, stopped and started.
    home.sh("one", "echo more > /root/f; sync").await;
    home.snapshot("one", "b", true).await;
    let sums = home.sh("one", SUMS).await;
    home.stop("one").await;
    home.start("one").await;
    assert_eq!(home.sh("one", SUMS).await, sums);
    home.restore("one", "b").await;
    assert_eq!(home.sh("one", SUMS).await, sums);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_workspace_frees_unneeded_space_and_starts_unchanged() {
    let home = with_layers().await;
    home.create("one").await;
    home.sh("one", "head -c 8388608 /dev/urandom > /root/same; echo f > /root/f; sync").await;
    home.snapshot("one", "a", false).await;
    home.sh("one", "dd if=/dev/urandom of=/root/same bs=1M count=8 conv=notrunc status=none; sync").await;
    let sums = home.sh("one", SUMS).await;
    home.stop("one").await;
    home.remove_snapshot("one", "a").await;
    let before = home.disk_bytes();
    assert_eq!(home.maintain().await.merged, 1);
    assert!(home.disk_bytes() < before);
    home.start("one").await;
    assert_eq!(home.sh("one", SUMS).await, sums);
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_share_a_shortened_chain_and_outlive_their_source() {
    let home = with_layers().await;
    home.create("one").await;
    home.sh("one", "echo same > /root/same").await;
    for number in 0..10 {
        home.sh("one", &format!("head -c 100000 /dev/urandom > /root/f{number}; sync")).await;
        home.snapshot("one", &format!("s{number}"), false).await;
    }
    home.fork("one", "two", 2).await;
    let sums = home.sh("one", SUMS).await;
    assert!(home.maintain().await.shortened >= 1);
    for fork in ["one", "two-1", "two-2"] {
        assert_eq!(home.sh(fork, SUMS).await, sums);
    }
    home.remove("one").await;
    home.maintain().await;
    assert_eq!(home.sh("two-1", SUMS).await, sums);
    home.remove("two-1").await;
    home.maintain().await;
    assert_eq!(home.sh("two-2", SUMS).await, sums);
    home.remove("two-2").await;
    home.maintain().await;
    assert_eq!(home.files("disks"), Vec::<String>::new());
    assert!(!home.workspaces.needs_maintenance());
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_skips_a_machine_that_is_in_use() {
    let home = with_layers().await;
    home.create("one").await;
    home.sh("one", "echo same > /root/same; echo f > /root/f; sync").await;
    for number in 0..8 {
        home.snapshot("one", &format!("s{number}"), false).await;
    }
    let sums = home.sh("one", SUMS).await;
    let before = home.depth("one").await;
    let attached = home.workspaces.attach(home.id("one")).await.unwrap();
    let done = home.maintain().await;
    assert_eq!((done.shortened, done.moved), (1, 0));
    assert!(home.workspaces.needs_maintenance());
    drop(attached);
    assert_eq!(home.maintain().await.moved, 1);
    assert_eq!(home.depth("one").await, before - 7);
    assert_eq!(home.sh("one", SUMS).await, sums);
    assert!(!home.workspaces.needs_maintenance());
}

#[tokio::test(flavor = "multi_thread")]
async fn maintenance_killed_before_or_after_rewriting_a_disk_is_recovered() {
    let home = with_layers().await;
    home.create("one").await;
    home.sh("one", "echo same > /root/same; echo f > /root/f; sync").await;
    for number in 0..8 {
        home.snapshot("one", &format!("s{number}"), false).await;
    }
    let sums = home.sh("one", SUMS).await;
    let meta = Meta::open(&home.home.path().join("state.db")).unwrap();
    let dir = home.home.path().join("disks");
    let written = meta.read(|read| Ok(read.workspaces()?.remove(0).disk)).unwrap();
    let chain = meta.read(|read| read.chain(written)).unwrap();
    let (newest, bottom) = (chain[1].id, chain[9].id);
    let die = || {
        let intent = json!({ "disks": [newest], "collapse": newest });
        meta.write(|tx| tx.begin("collapse", None, &intent).and_then(|id| tx.abandon(id))).unwrap();
    };
    let partial = dir.join(format!(".{newest}.qcow2.partial"));
    std::fs::write(&partial, "half of it").unwrap();
    die();
    let again = open(home.home.path()).await;
    assert!(!partial.exists());
    assert_eq!(meta.read(|read| read.chain(written)).unwrap(), chain);

    let onto = DiskSource::Layer(dir.join(format!("{bottom}.qcow2")));
    Qcow2Layers.collapse(&dir.join(format!("{newest}.qcow2")), &onto).unwrap();
    die();
    let last = open(home.home.path()).await;
    assert_eq!(meta.read(|read| read.disk(newest)).unwrap().parent, Some(bottom));
    assert_eq!(last.maintain(&silent()).await.unwrap().moved, 1);
    assert_eq!(home.sh("one", SUMS).await, sums);
    for number in [0, 7] {
        let snapshot = home.snapshot_id("one", &format!("s{number}")).unwrap();
        again.restore(home.id("one"), snapshot, false, &silent()).await.unwrap();
        assert_eq!(home.sh("one", SUMS).await, sums);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_maintenance_requests_another_pass() {
    let home = Home::new().await;
    let dir = home.home.path().join("maintenance");
    std::fs::create_dir_all(&dir).unwrap();
    let lock = std::fs::File::create(dir.join("lock")).unwrap();
    lock.lock().unwrap();
    home.maintain().await;
    assert!(dir.join("again").exists());
    lock.unlock().unwrap();
    home.maintain().await;
    assert!(!dir.join("again").exists());
}
