//! Snapshots of disks.

use agentiso_core::action::State;
use agentiso_core::{Code, SnapshotId, WorkspaceId};
use uuid::Uuid;

use super::HostLab;
use super::lab::{refused, silent, snapshot_request};

/// Checks snapshots without memory.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn snapshots(lab: &HostLab) {
    let id = lab.create("snapped").await.id;
    lab.sh(id, "echo one > /root/file").await;
    let first = lab.snapshot(id, "first", false).await.snapshot;
    assert_eq!((first.workspace, first.parent, first.memory), (id, None, None));
    lab.sh(id, "echo two > /root/file; echo new > /root/new").await;
    let second = lab.snapshot(id, "second", false).await.snapshot;
    assert_eq!(second.parent, Some(first.id));

    names_are_unique_and_lookups_are_strict(lab, id).await;
    a_restore_brings_files_back_and_moves_the_position(lab, id, first.id).await;
    a_snapshot_knows_its_size(lab, id, second.id).await;
    a_stopped_workspace_stays_stopped(lab, id, second.id).await;
    what_stood_on_a_removed_snapshot_stands_on_its_parent(lab, id, first.id, second.id).await;
    lab.remove(id).await;
    lab.require_nothing().await;
}

async fn names_are_unique_and_lookups_are_strict(lab: &HostLab, id: WorkspaceId) {
    let kept = (lab.kept)();
    refused(lab.host.snapshot(&snapshot_request(id, "first", false)).await, Code::SnapshotExists);
    assert_eq!((lab.kept)(), kept, "a refused snapshot left something");
    let nobodys = SnapshotId::from_uuid(Uuid::now_v7());
    refused(lab.host.restore(id, nobodys, false, &silent()).await, Code::SnapshotNotFound);
    refused(lab.host.remove_snapshot(id, nobodys).await, Code::SnapshotNotFound);

    let other = lab.create("other").await.id;
    let others = lab.snapshot(other, "first", false).await.snapshot.id;
    refused(lab.host.restore(id, others, false, &silent()).await, Code::SnapshotNotFound);
    refused(lab.host.remove_snapshot(id, others).await, Code::SnapshotNotFound);
    assert_eq!(lab.host.snapshots(other).await.expect("snapshots").len(), 1);
    lab.remove(other).await;
    assert_eq!((lab.kept)(), kept, "the other workspace left something");
}

async fn a_restore_brings_files_back_and_moves_the_position(
    lab: &HostLab,
    id: WorkspaceId,
    first: SnapshotId,
) {
    let restored = lab.host.restore(id, first, false, &silent()).await.expect("a restore");
    assert_eq!((restored.memory, restored.workspace.state), (false, State::Running));
    assert_eq!(lab.sh(id, "cat /root/file; test -e /root/new || echo gone").await, "one\ngone\n");
    assert_eq!(lab.sh(id, "hostname").await, "snapped\n");
    assert_eq!(lab.records.workspace(id).await.expect("a record").position, Some(first));
    let third = lab.snapshot(id, "third", false).await.snapshot;
    assert_eq!(third.parent, Some(first));
    let views = lab.host.snapshots(id).await.expect("snapshots");
    let shown: Vec<_> = views
        .iter()
        .map(|view| (view.name.as_str(), view.parent.as_ref().map(|name| name.as_str()), view.current))
        .collect();
    let expected = [("first", None, false), ("second", Some("first"), false), ("third", Some("first"), true)];
    assert_eq!(shown, expected);
    assert!(views.iter().all(|view| view.description == "to be restored" && view.forks.is_empty()));
}

async fn a_snapshot_knows_its_size(lab: &HostLab, id: WorkspaceId, second: SnapshotId) {
    let before = lab.host.info(id).await.expect("a workspace").resources;
    lab.host.grow(id, before.disk_gb + 1).await.expect("a larger disk");
    assert_eq!(lab.host.size_at(id, second).await.expect("a size"), before);
    lab.host.restore(id, second, false, &silent()).await.expect("a restore");
    assert_eq!(lab.host.info(id).await.expect("a workspace").resources, before);
    assert_eq!(lab.sh(id, "cat /root/file /root/new").await, "two\nnew\n");
}

async fn a_stopped_workspace_stays_stopped(lab: &HostLab, id: WorkspaceId, second: SnapshotId) {
    lab.sh(id, "echo lost > /root/file").await;
    lab.stop(id).await;
    let stopped = lab.snapshot(id, "stopped", false).await;
    assert_eq!(stopped.snapshot.parent, Some(second));
    let restored = lab.host.restore(id, second, false, &silent()).await.expect("a restore");
    assert_eq!(restored.workspace.state, State::Stopped);
    lab.start(id).await;
    assert_eq!(lab.sh(id, "cat /root/file").await, "two\n");
    lab.host.restore(id, stopped.snapshot.id, false, &silent()).await.expect("a restore");
    assert_eq!(lab.sh(id, "cat /root/file").await, "lost\n");
}

async fn what_stood_on_a_removed_snapshot_stands_on_its_parent(
    lab: &HostLab,
    id: WorkspaceId,
    first: SnapshotId,
    second: SnapshotId,
) {
    lab.host.remove_snapshot(id, second).await.expect("a removal");
    let stopped = lab.records.find_snapshot(id, "stopped").await.expect("a record");
    assert_eq!(stopped.parent, Some(first));
    refused(lab.host.restore(id, second, false, &silent()).await, Code::SnapshotNotFound);
    assert_eq!(lab.sh(id, "cat /root/file").await, "lost\n");
}
