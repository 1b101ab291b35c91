//! What becomes of a command on which the policy rules.

use agentiso_core::Code;
use agentiso_core::action::{SnapshotKind, SnapshotList, State, WorkspaceInfo, WorkspaceStop};
use agentiso_core::admission::Ruling;
use agentiso_testing::fake::HostCall;

use crate::lab::{Lab, operator};

async fn checkpoints(lab: &Lab) -> Vec<String> {
    let list = SnapshotList { workspace_id: "web".to_owned(), kind: Some(SnapshotKind::Checkpoint) };
    let listed = lab.act(&operator(), list).await.unwrap();
    listed.snapshots.into_iter().map(|snapshot| snapshot.brief.name).collect()
}

#[tokio::test]
async fn a_command_that_is_denied_never_reaches_the_machine_and_is_recorded() {
    let lab = Lab::new().await;
    let agent = lab.session("agent").await;
    lab.create(&agent, "web").await;
    lab.policy.set(Ruling::Deny { reason: "it removes everything".to_owned() });
    let refused = lab.exec(&agent, "web", "rm -rf /").await.unwrap_err();
    assert_eq!(refused.code(), Code::NotPermitted);
    assert!(refused.message().contains("it removes everything"), "{refused}");
    assert!(lab.host.requested().is_empty());
    assert_eq!(lab.entries("exec").await[0].outcome, "not_permitted");
}

#[tokio::test]
async fn a_command_that_needs_approval_is_refused_before_the_machine_is_started() {
    let lab = Lab::new().await;
    let agent = lab.session("agent").await;
    lab.create(&agent, "web").await;
    let stop = WorkspaceStop { workspace_id: "web".to_owned(), force: false, timeout_secs: None };
    lab.act(&agent, stop).await.unwrap();
    lab.policy.set(Ruling::Approval { reason: "it publishes".to_owned() });
    let refused = lab.exec(&agent, "web", "cargo publish").await.unwrap_err();
    assert_eq!(refused.code(), Code::ApprovalRequired);
    let info = lab.act(&agent, WorkspaceInfo { workspace_id: "web".to_owned() }).await.unwrap();
    assert_eq!(info.brief.state, State::Stopped);
    lab.policy.set(Ruling::Allow);
    lab.exec(&agent, "web", "echo hello").await.unwrap();
}

#[tokio::test]
async fn a_checkpoint_is_a_snapshot_from_before_the_command() {
    let lab = Lab::new().await;
    let agent = lab.session("agent").await;
    lab.create(&agent, "web").await;
    lab.policy.set(Ruling::Checkpoint);
    lab.exec(&agent, "web", "echo hello").await.unwrap();
    let taken = checkpoints(&lab).await;
    assert!(taken.len() == 1 && taken[0].starts_with("checkpoint-"), "{taken:?}");
    lab.policy.set(Ruling::Allow);
    lab.exec(&agent, "web", "echo hello").await.unwrap();
    assert_eq!(checkpoints(&lab).await, taken);
}

#[tokio::test]
async fn a_command_does_not_run_without_the_checkpoint_it_needs() {
    let lab = Lab::with(|settings| settings.session_quota.snapshots = 1).await;
    let agent = lab.session("agent").await;
    lab.create(&agent, "web").await;
    lab.policy.set(Ruling::Checkpoint);
    lab.host.faults().fail_once(HostCall::Snapshot, Code::DiskFull);
    assert_eq!(lab.exec(&agent, "web", "echo a").await.unwrap_err().code(), Code::DiskFull);
    assert!(lab.host.requested().is_empty());
    lab.exec(&agent, "web", "echo b").await.unwrap();
    let commands = lab.host.requested().len();
    // The session's quota of snapshots is used up.
    assert_eq!(lab.exec(&agent, "web", "echo c").await.unwrap_err().code(), Code::QuotaExceeded);
    assert_eq!(lab.host.requested().len(), commands);
}
