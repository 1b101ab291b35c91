//! The fake host and its links do what every host and every link must do.
#![expect(clippy::expect_used, reason = "a fixture that cannot be made fails the test")]

use std::sync::Arc;

use agentiso_testing::fake::{FakeHost, TestRecords};
use agentiso_testing::hosts::{self, HostLab};
use agentiso_testing::links;

struct Fake {
    lab: HostLab,
    _records: TestRecords,
}

fn fake() -> Fake {
    let records = TestRecords::new();
    let host = FakeHost::new(Arc::clone(records.meta()));
    let kept = host.clone();
    let lab = HostLab {
        host: Arc::new(host),
        records: Arc::clone(records.meta()) as _,
        image: "debian".parse().expect("a name"),
        kept: Box::new(move || kept.kept()),
        echo_server: |port| format!("echo ready; serve {port}"),
    };
    Fake { lab, _records: records }
}

#[tokio::test]
async fn workspaces_are_created_changed_and_removed() {
    hosts::lifecycle(&fake().lab).await;
}

#[tokio::test]
async fn ends_of_machines_are_noted() {
    hosts::ends(&fake().lab).await;
}

#[tokio::test]
async fn snapshots_of_disks_are_restored() {
    hosts::snapshots(&fake().lab).await;
}

#[tokio::test]
async fn snapshots_of_memory_are_restored() {
    hosts::memory(&fake().lab).await;
}

#[tokio::test]
async fn forks_are_distinct_and_independent() {
    hosts::forks(&fake().lab).await;
}

#[tokio::test]
async fn rules_about_the_network_stay_with_their_workspace() {
    hosts::network(&fake().lab).await;
}

#[tokio::test]
async fn points_are_compared() {
    hosts::comparisons(&fake().lab).await;
}

#[tokio::test]
async fn links_do_what_every_link_does() {
    let fake = fake();
    let id = fake.lab.create("linked").await.id;
    links::conformance(&*fake.lab.link(id).await, fake.lab.echo_server).await;
    fake.lab.remove(id).await;
}
