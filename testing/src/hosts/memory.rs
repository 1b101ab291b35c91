//! Snapshots with memory.

use agentiso_core::action::State;
use agentiso_core::ports::link::{Exec, WorkspaceLink};
use agentiso_core::{SnapshotId, WorkspaceId};

use super::HostLab;
use super::lab::silent;
use crate::links::shell_words;

/// Checks that memory comes back with its processes and variables.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn memory(lab: &HostLab) {
    let id = lab.create("remembering").await.id;
    let link = lab.link(id).await;
    let job =
        link.start_job(Exec { argv: shell_words("sleep 1000"), ..Exec::default() }).await.expect("a job");
    link.set_env(vec![("COLOUR".to_owned(), Some("green".to_owned()))]).await.expect("a variable");
    lab.sh(id, "echo one > /root/file").await;
    let taken = lab.snapshot(id, "awake", true).await;
    assert!(taken.snapshot.memory.is_some() && taken.memory.is_some_and(|written| written.bytes > 0));
    assert!(lab.host.snapshots(id).await.expect("snapshots")[0].memory);
    assert_eq!(running_jobs(&*lab.link(id).await).await, [job], "the snapshot ended nothing");

    link.signal_job(job, 9).await.expect("a signal");
    link.set_env(vec![("COLOUR".to_owned(), Some("red".to_owned()))]).await.expect("a variable");
    lab.sh(id, "echo two > /root/file").await;
    let snapshot = taken.snapshot.id;
    a_restore_brings_back_what_ran(lab, id, snapshot, job).await;
    without_memory_nothing_runs(lab, id, snapshot).await;
    lab.stop(id).await;
    a_restore_brings_back_what_ran(lab, id, snapshot, job).await;
    lab.remove(id).await;
    lab.require_nothing().await;
}

async fn a_restore_brings_back_what_ran(lab: &HostLab, id: WorkspaceId, snapshot: SnapshotId, job: u32) {
    let before = lab.host.info(id).await.expect("a workspace").pid;
    let restored = lab.host.restore(id, snapshot, false, &silent()).await.expect("a restore");
    assert_eq!((restored.memory, restored.workspace.state), (true, State::Running));
    assert_ne!(restored.workspace.pid, before, "it is another machine");
    assert_eq!(restored.workspace.tier, "snapshot");
    let link = lab.link(id).await;
    assert_eq!(running_jobs(&*link).await, [job]);
    assert_eq!(lab.sh(id, "cat /root/file; printenv COLOUR").await, "one\ngreen\n");
}

async fn without_memory_nothing_runs(lab: &HostLab, id: WorkspaceId, snapshot: SnapshotId) {
    let restored = lab.host.restore(id, snapshot, true, &silent()).await.expect("a restore");
    assert_eq!((restored.memory, restored.workspace.state), (false, State::Running));
    let link = lab.link(id).await;
    assert!(link.jobs().await.expect("jobs").is_empty());
    assert!(link.env().await.expect("variables").is_empty());
    assert_eq!(lab.sh(id, "cat /root/file").await, "one\n");
}

pub(super) async fn running_jobs(link: &dyn WorkspaceLink) -> Vec<u32> {
    let jobs = link.jobs().await.expect("jobs");
    jobs.iter().filter(|job| job.running).map(|job| job.id).collect()
}
