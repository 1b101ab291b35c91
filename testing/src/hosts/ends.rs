//! Machines that end by themselves.

use agentiso_core::action::State;
use agentiso_core::ports::link::LinkError;
use agentiso_core::{Code, Explain};

use super::HostLab;
use super::lab::refused;

/// Checks what becomes of a workspace whose machine has ended, and of those who use it.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn ends(lab: &HostLab) {
    let view = lab.create("ending").await;
    let (id, pid) = (view.id, view.pid.expect("a machine"));
    let link = lab.link(id).await;
    assert_eq!(lab.host.note_if_ended(id, Some(pid)).await.expect("an answer"), None, "it runs");
    assert!(lab.host.switch_off(id).await.expect("an end"), "there was a machine");
    lab.host.machine_end(pid).await;
    let closed = link.status().await.expect_err("a link to nothing");
    assert!(matches!(closed, LinkError::Closed(_)), "{closed}");
    assert_eq!(closed.code(), Code::VmCrashed);

    // It is shown as stopped before anybody has noted that.
    let view = lab.host.info(id).await.expect("a workspace");
    assert_eq!((view.state, view.pid), (State::Stopped, None));
    assert!(view.stop_reason.is_some_and(|reason| reason.contains("unexpectedly")));
    assert_eq!(lab.host.note_if_ended(id, Some(pid + 1)).await.expect("an answer"), None, "another machine");
    let ended = lab.host.note_if_ended(id, Some(pid)).await.expect("an answer").expect("news");
    assert_eq!(ended.workspace.id, id);
    assert!(ended.workspace.machine().is_some(), "as it was before");
    assert_eq!(lab.host.note_if_ended(id, None).await.expect("an answer"), None, "it is no news any more");
    assert!(lab.records.workspace(id).await.expect("a record").machine().is_none());
    refused(lab.host.link(id).await.map(drop), Code::WorkspaceNotRunning);

    assert_eq!(lab.start(id).await.state, State::Running);
    assert_eq!(lab.sh(id, "echo again").await, "again\n");
    lab.remove(id).await;
    lab.require_nothing().await;
}
