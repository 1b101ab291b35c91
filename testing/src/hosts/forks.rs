//! Forks.

use agentiso_core::action::State;
use agentiso_core::ports::host::{CreateRequest, ForkRequest, ForkSource, WorkspaceView};
use agentiso_core::ports::link::Exec;
use agentiso_core::ports::records::{Session, SessionKind};
use agentiso_core::{Code, SessionId, SnapshotId, WorkspaceId};
use uuid::Uuid;

use super::HostLab;
use super::lab::{fork_request, refused, silent};
use super::memory::running_jobs;
use crate::links::shell_words;

/// Checks forks of workspaces and of snapshots.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn forks(lab: &HostLab) {
    let source = lab.create("source").await;
    let link = lab.link(source.id).await;
    let job =
        link.start_job(Exec { argv: shell_words("sleep 1000"), ..Exec::default() }).await.expect("a job");
    lab.sh(source.id, "echo one > /root/file").await;
    a_refused_fork_leaves_nothing(lab, source.id).await;
    owners_are_recorded_from_the_first_instant(lab, source.id).await;

    let twins = lab.host.fork(&fork_request(source.id, ForkSource::Now, "twin", 2), &silent()).await;
    let twins: Vec<WorkspaceView> = twins
        .expect("forks")
        .forks
        .into_iter()
        .map(|fork| fork.result.expect("a fork that was made").0)
        .collect();
    assert_eq!(twins.iter().map(|twin| twin.name.as_str()).collect::<Vec<_>>(), ["twin-1", "twin-2"]);
    let listed = lab.host.list().await.expect("a list");
    assert_eq!(
        listed.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(),
        ["source", "twin-1", "twin-2"],
        "forks of one call are listed in order"
    );
    for twin in &twins {
        a_fork_continues_as_itself(lab, &source, twin, job).await;
    }
    forks_are_independent(lab, source.id, &twins).await;
    for twin in &twins {
        lab.remove(twin.id).await;
    }
    a_snapshot_that_forks_need_stays(lab, source.id).await;
    a_fork_outlives_its_source(lab, &source).await;
    lab.require_nothing().await;
}

async fn a_refused_fork_leaves_nothing(lab: &HostLab, source: WorkspaceId) {
    let kept = (lab.kept)();
    let fork = |request: ForkRequest| async move { lab.host.fork(&request, &silent()).await };
    for count in [0, 101] {
        refused(fork(fork_request(source, ForkSource::Now, "f", count)).await, Code::InvalidArgument);
    }
    refused(fork(fork_request(source, ForkSource::Now, "source", 1)).await, Code::WorkspaceExists);
    let nobodys = ForkSource::Snapshot { id: SnapshotId::from_uuid(Uuid::now_v7()), disk_only: false };
    refused(fork(fork_request(source, nobodys, "f", 1)).await, Code::SnapshotNotFound);
    assert_eq!((lab.kept)(), kept, "a refused fork left something");
    assert_eq!(lab.host.list().await.expect("a list").len(), 1);
    assert_eq!(lab.sh(source, "cat /root/file").await, "one\n");
}

async fn owners_are_recorded_from_the_first_instant(lab: &HostLab, source: WorkspaceId) {
    let owner = SessionId::from_uuid(Uuid::new_v4());
    let now = jiff::Timestamp::from_second(1_800_000_000).expect("a time");
    let session = Session {
        id: owner,
        kind: SessionKind::Mcp,
        client: "owner".to_owned(),
        token_hash: [7; 32],
        created: now,
        last_active: now,
    };
    lab.records.insert_session(&session).await.expect("a session");
    let owned = CreateRequest { owner: Some(owner), ..lab.request("owned") };
    let mut made = vec![lab.host.create(&owned, &silent()).await.expect("a workspace").id];
    let fork = |owner| ForkRequest { owner: Some(owner), ..fork_request(source, ForkSource::Now, "f", 1) };
    let forked = lab.host.fork(&fork(owner), &silent()).await.expect("a fork").forks;
    made.extend(forked.into_iter().map(|fork| fork.result.expect("a fork that was made").0.id));
    for id in made {
        assert_eq!(lab.records.settings(id).await.expect("settings").owner, Some(owner));
        lab.remove(id).await;
    }
    // A session that has ended meanwhile cannot own anything, and nothing is left for others to take.
    let gone = SessionId::from_uuid(Uuid::new_v4());
    lab.host.fork(&fork(gone), &silent()).await.expect_err("an owner that does not exist");
    assert_eq!(lab.host.list().await.expect("a list").len(), 1);
    lab.records.end_session(owner).await.expect("an end");
}

async fn a_fork_continues_as_itself(lab: &HostLab, source: &WorkspaceView, fork: &WorkspaceView, job: u32) {
    assert_eq!((fork.state, fork.tier.as_str(), fork.resources), (State::Running, "fork", source.resources));
    assert_ne!(fork.id, source.id);
    assert_ne!(fork.pid, source.pid);
    let from = fork.forked_from.as_ref().expect("a lineage");
    assert_eq!((from.id, from.name.as_str(), from.depth), (source.id, "source", 1));
    assert!(from.snapshot.is_none());
    assert_eq!(lab.sh(fork.id, "hostname; cat /root/file").await, format!("{}\none\n", fork.name));
    assert_eq!(running_jobs(&*lab.link(fork.id).await).await, [job], "what ran continues");
    assert!(lab.host.snapshots(fork.id).await.expect("snapshots").is_empty());
}

async fn forks_are_independent(lab: &HostLab, source: WorkspaceId, twins: &[WorkspaceView]) {
    lab.sh(twins[0].id, "echo mine > /root/file").await;
    lab.sh(source, "echo source > /root/file").await;
    assert_eq!(lab.sh(twins[0].id, "cat /root/file").await, "mine\n");
    assert_eq!(lab.sh(twins[1].id, "cat /root/file").await, "one\n");
    assert_eq!(lab.sh(source, "cat /root/file; hostname").await, "source\nsource\n");
    let link = lab.link(twins[1].id).await;
    let job = running_jobs(&*link).await[0];
    link.signal_job(job, 9).await.expect("a signal");
    assert_eq!(running_jobs(&*lab.link(source).await).await, [job], "the source's job is another one");
}

async fn a_snapshot_that_forks_need_stays(lab: &HostLab, source: WorkspaceId) {
    let snapshot = lab.snapshot(source, "base", false).await.snapshot.id;
    let from = ForkSource::Snapshot { id: snapshot, disk_only: false };
    let fork = lab.fork(source, from, "child").await;
    let lineage = lab.host.info(fork.id).await.expect("a fork").forked_from.expect("a lineage");
    assert_eq!(lineage.snapshot.as_ref().map(|name| name.as_str()), Some("base"));
    let views = lab.host.snapshots(source).await.expect("snapshots");
    assert_eq!(views[0].forks, ["child"]);
    refused(lab.host.remove_snapshot(source, snapshot).await, Code::SnapshotInUse);
    assert_eq!(lab.sh(fork.id, "cat /root/file").await, "source\n");
    lab.remove(fork.id).await;
    lab.host.remove_snapshot(source, snapshot).await.expect("nobody needs it any more");
    assert!(lab.host.snapshots(source).await.expect("snapshots").is_empty());
}

async fn a_fork_outlives_its_source(lab: &HostLab, source: &WorkspaceView) {
    lab.stop(source.id).await;
    let heir = lab.fork(source.id, ForkSource::Now, "heir").await;
    assert_eq!(heir.state, State::Running, "a fork of a stopped workspace runs");
    assert_eq!(lab.host.info(source.id).await.expect("the source").state, State::Stopped);
    lab.remove(source.id).await;
    assert_eq!(lab.sh(heir.id, "cat /root/file").await, "source\n");
    let from = lab.host.info(heir.id).await.expect("the fork").forked_from.expect("a lineage");
    assert_eq!((from.id, from.name.as_str()), (source.id, "source"), "a lineage outlives its source too");
    lab.remove(heir.id).await;
}
