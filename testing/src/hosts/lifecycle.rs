//! Creating, starting, stopping, renaming, growing and removing.

use agentiso_core::action::State;
use agentiso_core::ports::host::{CompareRequest, CreateRequest, ForkSource, Point, RemoveRequest};
use agentiso_core::{Code, Resources, SnapshotId, WorkspaceId};
use uuid::Uuid;

use super::HostLab;
use super::lab::{fork_request, name_of, refused, silent, snapshot_request};

/// Checks everything that needs no snapshot.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn lifecycle(lab: &HostLab) {
    what_does_not_exist_is_not_found(lab).await;
    a_create_that_is_refused_leaves_nothing(lab).await;
    let first = lab.create("first").await.id;
    a_new_workspace_runs_and_is_recorded(lab, first).await;
    names_are_unique(lab, first).await;
    starting_and_stopping_twice_is_like_once(lab, first).await;
    a_stopped_workspace_keeps_its_files_and_refuses_what_needs_a_machine(lab, first).await;
    a_disk_grows_and_never_shrinks(lab, first).await;
    a_running_workspace_is_removed_only_by_force(lab, first).await;
}

async fn what_does_not_exist_is_not_found(lab: &HostLab) {
    let id = WorkspaceId::from_uuid(Uuid::now_v7());
    let snapshot = SnapshotId::from_uuid(Uuid::now_v7());
    let (host, code) = (&lab.host, Code::WorkspaceNotFound);
    refused(host.info(id).await, code);
    refused(host.start(id, &silent()).await, code);
    refused(host.stop(id, false, None).await, code);
    refused(host.stop(id, true, None).await, code);
    refused(host.switch_off(id).await, code);
    refused(host.remove(&RemoveRequest { workspace: id, force: true }).await, code);
    refused(host.rename(id, &name_of("other")).await, code);
    refused(host.grow(id, 20).await, code);
    refused(host.snapshot(&snapshot_request(id, "s", false)).await, code);
    refused(host.snapshots(id).await, code);
    refused(host.remove_snapshot(id, snapshot).await, code);
    refused(host.restore(id, snapshot, false, &silent()).await, code);
    refused(host.fork(&fork_request(id, ForkSource::Now, "f", 1), &silent()).await, code);
    refused(host.link(id).await.map(drop), code);
    refused(host.logs(id, 1).await, code);
    refused(host.disk_used_bytes(id).await, code);
    let request = CompareRequest { before: Point::Now(id), after: Point::Now(id), under: None };
    refused(host.compare(&request).await, code);
    refused(host.image(&"no-such-image".parse().expect("a name")).await, Code::ImageNotFound);
    assert_eq!(host.note_if_ended(id, None).await.expect("an answer"), None);
    lab.require_nothing().await;
}

async fn a_create_that_is_refused_leaves_nothing(lab: &HostLab) {
    let good = lab.request("refused");
    let image = "no-such-image".parse().expect("a name");
    refused(lab.host.create(&CreateRequest { image, ..good.clone() }, &silent()).await, Code::ImageNotFound);
    for resources in [
        Resources { vcpus: 0, ..good.resources },
        Resources { memory_mb: 1, ..good.resources },
        Resources { disk_gb: 1_000_000, ..good.resources },
    ] {
        let request = CreateRequest { resources, ..good.clone() };
        refused(lab.host.create(&request, &silent()).await, Code::InvalidArgument);
    }
    lab.require_nothing().await;
}

async fn a_new_workspace_runs_and_is_recorded(lab: &HostLab, id: WorkspaceId) {
    let view = lab.host.info(id).await.expect("a workspace");
    assert_eq!((view.name.as_str(), view.state, view.stop_reason), ("first", State::Running, None));
    assert_eq!((view.image, view.from_pool), (lab.image.clone(), false));
    assert!(view.pid.is_some() && view.forked_from.is_none());
    let row = lab.records.workspace(id).await.expect("a record");
    assert_eq!((row.name.as_str(), row.resources, row.position), ("first", view.resources, None));
    assert!(row.machine().is_some());
    assert_eq!(lab.records.settings(id).await.expect("settings").owner, None);
    let listed = lab.host.list().await.expect("a list");
    assert_eq!(listed.iter().map(|view| view.id).collect::<Vec<_>>(), [id]);
    assert_eq!(lab.sh(id, "hostname").await, "first\n");
    assert!(!(lab.kept)().is_empty(), "a workspace is kept somewhere");
}

async fn names_are_unique(lab: &HostLab, id: WorkspaceId) {
    let kept = (lab.kept)();
    refused(lab.host.create(&lab.request("first"), &silent()).await, Code::WorkspaceExists);
    assert_eq!((lab.kept)(), kept, "what was refused left something");
    let nameless = CreateRequest { name: None, ..lab.request("unused") };
    let second = lab.host.create(&nameless, &silent()).await.expect("a workspace with a name of its own");
    assert!(second.name.as_str().starts_with("ws-"), "{}", second.name);
    refused(lab.host.rename(second.id, &name_of("first")).await, Code::WorkspaceExists);
    assert_eq!(lab.host.info(second.id).await.expect("a workspace").name, second.name);
    lab.remove(second.id).await;
    let same = lab.host.rename(id, &name_of("first")).await.expect("the name it has");
    assert_eq!(same.name.as_str(), "first");
    let renamed = lab.host.rename(id, &name_of("renamed")).await.expect("another name");
    assert_eq!(renamed.name.as_str(), "renamed");
    assert_eq!(lab.sh(id, "hostname").await, "renamed\n");
    assert_eq!(lab.records.find_workspace("renamed").await.expect("a record").id, id);
}

async fn starting_and_stopping_twice_is_like_once(lab: &HostLab, id: WorkspaceId) {
    let before = lab.host.info(id).await.expect("a workspace").pid;
    assert_eq!(lab.start(id).await.pid, before, "one that runs is left as it is");
    lab.sh(id, "echo kept > /root/kept; sync").await;
    assert!(lab.host.stop(id, false, None).await.expect("a stop"), "it was stopped cleanly");
    assert!(lab.host.stop(id, false, None).await.expect("a stop"), "one that does not run is clean");
    assert!(!lab.host.switch_off(id).await.expect("an answer"), "there is no machine");
    let view = lab.host.info(id).await.expect("a workspace");
    assert_eq!((view.state, view.pid, view.stop_reason), (State::Stopped, None, None));
}

async fn a_stopped_workspace_keeps_its_files_and_refuses_what_needs_a_machine(
    lab: &HostLab,
    id: WorkspaceId,
) {
    refused(lab.host.link(id).await.map(drop), Code::WorkspaceNotRunning);
    refused(lab.host.grow(id, 20).await, Code::WorkspaceNotRunning);
    refused(lab.host.snapshot(&snapshot_request(id, "s", true)).await, Code::WorkspaceNotRunning);
    assert!(lab.host.snapshots(id).await.expect("snapshots").is_empty(), "a refused snapshot is not there");
    let logs = lab.host.logs(id, 10).await.expect("logs");
    assert_eq!((logs.console.as_str(), logs.qemu.as_str()), ("", ""));
    assert_eq!(lab.start(id).await.state, State::Running);
    assert_eq!(lab.sh(id, "cat /root/kept").await, "kept\n");
    assert!(!lab.host.stop(id, true, None).await.expect("a stop"), "it was not stopped cleanly");
    assert!(lab.host.info(id).await.expect("a workspace").stop_reason.is_some());
    lab.start(id).await;
}

async fn a_disk_grows_and_never_shrinks(lab: &HostLab, id: WorkspaceId) {
    let before = lab.host.info(id).await.expect("a workspace").resources.disk_gb;
    refused(lab.host.grow(id, before - 1).await, Code::InvalidArgument);
    refused(lab.host.grow(id, 1_000_000).await, Code::InvalidArgument);
    assert_eq!(lab.records.workspace(id).await.expect("a record").resources.disk_gb, before);
    let grown = lab.host.grow(id, before + 1).await.expect("a larger disk");
    assert_eq!(grown.resources.disk_gb, before + 1);
    assert_eq!(lab.records.workspace(id).await.expect("a record").resources.disk_gb, before + 1);
}

async fn a_running_workspace_is_removed_only_by_force(lab: &HostLab, id: WorkspaceId) {
    refused(lab.host.remove(&RemoveRequest { workspace: id, force: false }).await, Code::WorkspaceRunning);
    assert_eq!(lab.host.info(id).await.expect("a workspace").state, State::Running);
    assert_eq!(lab.sh(id, "cat /root/kept").await, "kept\n");
    lab.stop(id).await;
    lab.host.remove(&RemoveRequest { workspace: id, force: false }).await.expect("a stopped one goes");
    refused(lab.host.info(id).await, Code::WorkspaceNotFound);
    lab.require_nothing().await;
}
