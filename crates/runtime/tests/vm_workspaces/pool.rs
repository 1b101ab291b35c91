//! The pool of machines that are started in advance.

use std::collections::HashSet;

use agentiso_core::Resources;
use agentiso_meta::Meta;
use agentiso_runtime::workspaces::{CreateRequest, Maintained};
use agentiso_testing::TestHome;
use serde_json::json;

use crate::common::*;

async fn with_pool(settings: &str) -> Home {
    let home = TestHome::new();
    // The default depends on the host's memory.
    let budget = if settings.contains("memory_mb") { "" } else { "memory_mb = 1024" };
    home.configure(&format!("[defaults]\nmemory_mb = 256\n[pool]\n{settings}\n{budget}\n"));
    let home = Home::of(home).await;
    home.workspaces.expect_creates();
    home
}

async fn fill(home: &Home) -> Maintained {
    home.workspaces.maintain(&silent()).await.unwrap_or_else(|failure| panic!("{failure:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_takes_a_pooled_machine_and_the_pool_is_refilled() {
    let home = with_pool("size = 1").await;
    assert!(home.workspaces.needs_maintenance());
    assert_eq!(fill(&home).await.made_ready, 1);
    assert!(!home.workspaces.needs_maintenance());
    let taken = home.create("one").await;
    assert!(taken.from_pool);
    assert_eq!(taken.tier, "pool");
    assert_eq!(home.sh("one", "hostname").await, "one\n");
    assert!(home.workspaces.needs_maintenance());
    let made = home.create("two").await;
    assert!(!made.from_pool);
    assert_ne!(made.tier, "pool");
    let ids = "cat /etc/machine-id /proc/sys/kernel/random/boot_id";
    assert_ne!(home.sh("one", ids).await, home.sh("two", ids).await);
    assert_eq!(fill(&home).await.made_ready, 1);
    assert!(home.create("three").await.from_pool);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_with_other_parameters_does_not_get_a_pooled_machine() {
    let home = with_pool("size = 1").await;
    fill(&home).await;
    let usual = request("other").resources;
    let others = [
        Resources { memory_mb: 320, ..usual },
        Resources { vcpus: 2, ..usual },
        Resources { disk_gb: usual.disk_gb + 1, ..usual },
    ];
    for resources in others {
        let made = home.create_as(&CreateRequest { resources, ..request("other") }).await.unwrap();
        assert!(!made.from_pool, "{resources:?}");
        assert_eq!(made.resources, resources);
        home.remove("other").await;
    }
    for (cold, pool) in [(true, true), (false, false)] {
        let made = home.create_as(&CreateRequest { cold, pool, ..request("other") }).await.unwrap();
        assert!(!made.from_pool, "cold {cold}, pool {pool}");
        home.remove("other").await;
    }
    assert!(home.create("one").await.from_pool);
}

#[tokio::test(flavor = "multi_thread")]
async fn recently_used_sizes_are_pooled_within_the_memory_limit() {
    let home = with_pool("size = 2\nmemory_mb = 640").await;
    let larger = Resources { memory_mb: 320, ..request("one").resources };
    home.create_as(&CreateRequest { resources: larger, ..request("one") }).await.unwrap();
    assert!(home.workspaces.needs_maintenance());
    assert_eq!(fill(&home).await.made_ready, 2);
    assert!(!home.workspaces.needs_maintenance());
    let taken = home.create_as(&CreateRequest { resources: larger, ..request("two") }).await.unwrap();
    assert!(taken.from_pool);
    assert_eq!(taken.resources, larger);
    assert!(home.create("three").await.from_pool);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_is_empty_until_a_client_connects() {
    let home = TestHome::new();
    home.configure("[defaults]\nmemory_mb = 256\n[pool]\nsize = 1\nmemory_mb = 512\n");
    let home = Home::of(home).await;
    assert!(!home.workspaces.needs_maintenance());
    let state = home.workspaces.pool_state().unwrap();
    assert_eq!((state.ready, state.wanted), (0, 0));
    assert!(state.why.contains("when an agent connects"), "{}", state.why);
    home.create("one").await;
    assert!(home.workspaces.needs_maintenance());
    assert_eq!(fill(&home).await.made_ready, 1);
    let state = home.workspaces.pool_state().unwrap();
    assert_eq!((state.ready, state.wanted), (1, 1));
    assert!(state.why.contains("512 MiB"), "{}", state.why);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooled_machine_with_an_outdated_configuration_is_replaced() {
    let mut home = with_pool("size = 1").await;
    fill(&home).await;
    let before = home.home.processes();
    home.home.configure("[defaults]\nmemory_mb = 320\n[pool]\nsize = 1\nmemory_mb = 512\n");
    home.workspaces = open(home.home.path()).await;
    home.workspaces.expect_creates();
    assert!(home.workspaces.needs_maintenance());
    assert_eq!(fill(&home).await, Maintained { made_ready: 1, dismissed: 1, ..Maintained::default() });
    let after = home.home.processes();
    assert_eq!(after.len(), 1);
    assert_ne!(before, after);
    empty_pool(home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creates_never_get_the_same_machine() {
    let home = with_pool("size = 2").await;
    assert_eq!(fill(&home).await.made_ready, 2);
    let requests = ["a", "b", "c"].map(request);
    let (one, two, three) = tokio::join!(
        home.create_as(&requests[0]),
        home.create_as(&requests[1]),
        home.create_as(&requests[2])
    );
    let views = [one.unwrap(), two.unwrap(), three.unwrap()];
    assert_eq!(views.iter().filter(|view| view.from_pool).count(), 2);
    assert_eq!(views.iter().filter_map(|view| view.pid).collect::<HashSet<_>>().len(), 3);
    for name in ["a", "b", "c"] {
        assert_eq!(home.sh(name, "hostname").await, format!("{name}\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_pooled_machine_is_skipped_and_leaves_nothing_behind() {
    let home = with_pool("size = 2").await;
    fill(&home).await;
    kill_all(&home);
    let made = home.create("one").await;
    assert!(!made.from_pool);
    assert_eq!(home.sh("one", "hostname").await, "one\n");
    let done = fill(&home).await;
    assert_eq!(done.made_ready, 2);
    home.remove("one").await;
    empty_pool(home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_pooled_machines_are_replaced_automatically() {
    let home = with_pool("size = 1").await;
    fill(&home).await;
    kill_all(&home);
    assert!(home.workspaces.needs_maintenance());
    assert_eq!(fill(&home).await, Maintained { made_ready: 1, dismissed: 1, ..Maintained::default() });
    assert!(home.create("one").await.from_pool);
    home.remove("one").await;
    empty_pool(home).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_killed_after_taking_a_pooled_machine_leaves_nothing_behind() {
    let home = with_pool("size = 1").await;
    fill(&home).await;
    // The database after such a kill: the machine is out of the pool, and its owner is dead.
    let meta = Meta::open(&home.home.path().join("state.db")).unwrap();
    meta.write(|tx| {
        let ready = tx.pool()?.remove(0);
        let claimed = tx.claim(&ready.shape)?.unwrap();
        let intent = json!({ "disks": [claimed.disk], "berths": [claimed.machine["berth"]] });
        let operation = tx.begin("claim", Some(claimed.id), &intent)?;
        tx.abandon(operation)
    })
    .unwrap();
    let again = open(home.home.path()).await;
    assert_eq!(home.home.processes(), Vec::<u32>::new());
    for dir in ["disks", "bases", "workspaces"] {
        assert_eq!(home.files(dir), Vec::<String>::new());
    }
    again.expect_creates();
    assert!(again.needs_maintenance());
    assert!(!home.create("one").await.from_pool);
}

/// Disables the pool and asserts that nothing of it is left.
async fn empty_pool(mut home: Home) {
    home.home.configure("");
    home.workspaces = open(home.home.path()).await;
    fill(&home).await;
    assert!(!home.workspaces.needs_maintenance());
    assert_eq!(home.home.processes(), Vec::<u32>::new());
    assert_eq!(home.files("disks"), Vec::<String>::new());
    assert_eq!(home.files("bases"), Vec::<String>::new());
    assert_eq!(home.files("workspaces"), Vec::<String>::new());
}

fn kill_all(home: &Home) {
    for pid in home.home.processes() {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL).unwrap();
        let mut watched = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut watched, None).unwrap();
    }
}
