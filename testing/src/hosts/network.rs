//! What workspaces may reach: the rules stay with their workspace, and no two workspaces share an address.

use std::collections::BTreeSet;

use agentiso_core::ports::host::{CreateRequest, ForkRequest, ForkSource};
use agentiso_core::{Code, NetworkRules, NetworkState, WorkspaceId};
use uuid::Uuid;

use super::HostLab;
use super::lab::{fork_request, refused, silent};

/// Checks rules and addresses.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn network(lab: &HostLab) {
    a_create_with_wrong_rules_leaves_nothing(lab).await;
    let id = lab.create("quiet").await.id;
    nothing_is_reached_by_default(lab, id).await;
    rules_change_while_it_runs(lab, id).await;
    a_refused_change_changes_nothing(lab, id).await;
    rules_survive_a_stop_a_start_and_a_restore(lab, id).await;
    rules_change_while_it_is_stopped(lab, id).await;
    forks_have_the_rules_of_their_source_and_addresses_of_their_own(lab, id).await;
    lab.remove(id).await;
    an_address_is_free_again_once_nobody_needs_it(lab).await;
    lab.require_nothing().await;
}

fn social() -> NetworkRules {
    NetworkRules { allow_inter_vm: true, groups: vec!["blue".to_owned()], ..NetworkRules::default() }
}

fn wrong() -> NetworkRules {
    let allow_cidrs = Some(vec!["10.0.0.1/8".to_owned()]);
    NetworkRules { allow_internet: true, allow_cidrs, ..NetworkRules::default() }
}

async fn state(lab: &HostLab, id: WorkspaceId) -> NetworkState {
    let view = lab.host.info(id).await.expect("a workspace");
    let record = lab.records.workspace(id).await.expect("a record");
    assert_eq!(view.network, record.network, "the view says what is recorded");
    view.network
}

async fn a_create_with_wrong_rules_leaves_nothing(lab: &HostLab) {
    let request = CreateRequest { network: wrong(), ..lab.request("refused") };
    refused(lab.host.create(&request, &silent()).await, Code::InvalidArgument);
    lab.require_nothing().await;
}

async fn nothing_is_reached_by_default(lab: &HostLab, id: WorkspaceId) {
    assert_eq!(state(lab, id).await, NetworkState::default());
    let nobody = WorkspaceId::from_uuid(Uuid::now_v7());
    refused(lab.host.set_network(nobody, &social()).await, Code::WorkspaceNotFound);
}

async fn rules_change_while_it_runs(lab: &HostLab, id: WorkspaceId) {
    let on = lab.host.set_network(id, &social()).await.expect("a change");
    assert_eq!(on.rules, social());
    assert!(on.address.is_some(), "a workspace that reaches something has an address");
    assert_eq!(state(lab, id).await, on);
    let other = NetworkRules { groups: vec!["green".to_owned()], ..social() };
    let changed = lab.host.set_network(id, &other).await.expect("a change");
    assert_eq!((changed.rules, changed.address), (other, on.address), "the address stays");
    let off = lab.host.set_network(id, &NetworkRules::default()).await.expect("a change");
    assert_eq!(off, NetworkState::default());
    lab.host.set_network(id, &social()).await.expect("a change");
}

async fn a_refused_change_changes_nothing(lab: &HostLab, id: WorkspaceId) {
    let before = state(lab, id).await;
    refused(lab.host.set_network(id, &wrong()).await, Code::InvalidArgument);
    assert_eq!(state(lab, id).await, before);
    let request = ForkRequest { network: Some(wrong()), ..fork_request(id, ForkSource::Now, "refused", 1) };
    refused(lab.host.fork(&request, &silent()).await, Code::InvalidArgument);
    assert_eq!(lab.host.list().await.expect("a list").len(), 1);
}

async fn rules_survive_a_stop_a_start_and_a_restore(lab: &HostLab, id: WorkspaceId) {
    let kept = state(lab, id).await;
    let silent_then = lab.snapshot(id, "social", true).await.snapshot.id;
    lab.stop(id).await;
    assert_eq!(state(lab, id).await, kept);
    assert_eq!(lab.start(id).await.network, kept);
    let changed = lab.host.set_network(id, &NetworkRules::default()).await.expect("a change");
    let restored = lab.host.restore(id, silent_then, false, &silent()).await.expect("a restore");
    assert_eq!(restored.workspace.network, changed, "a restore brings back no rules");
    assert_eq!(state(lab, id).await, changed);
    lab.host.remove_snapshot(id, silent_then).await.expect("a removal");
}

async fn rules_change_while_it_is_stopped(lab: &HostLab, id: WorkspaceId) {
    lab.stop(id).await;
    let on = lab.host.set_network(id, &social()).await.expect("a change");
    assert!(on.address.is_some());
    assert_eq!(lab.start(id).await.network, on);
}

async fn forks_have_the_rules_of_their_source_and_addresses_of_their_own(lab: &HostLab, id: WorkspaceId) {
    let request = fork_request(id, ForkSource::Now, "twin", 2);
    let forks = lab.host.fork(&request, &silent()).await.expect("forks").forks;
    let forks: Vec<_> = forks.into_iter().map(|fork| fork.result.expect("a fork").0).collect();
    let mut addresses = BTreeSet::from([state(lab, id).await.address]);
    for fork in &forks {
        assert_eq!(fork.network.rules, social());
        assert!(fork.network.address.is_some());
        assert!(addresses.insert(fork.network.address), "{:?} was given out twice", fork.network.address);
        assert_eq!(state(lab, fork.id).await, fork.network);
    }
    for fork in forks {
        lab.remove(fork.id).await;
    }
    let silent_one = ForkRequest {
        network: Some(NetworkRules::default()),
        ..fork_request(id, ForkSource::Now, "silent", 1)
    };
    let forks = lab.host.fork(&silent_one, &silent()).await.expect("a fork").forks;
    let fork = forks.into_iter().next().expect("one fork").result.expect("a fork that was made").0;
    assert_eq!(fork.network, NetworkState::default());
    lab.remove(fork.id).await;
}

async fn an_address_is_free_again_once_nobody_needs_it(lab: &HostLab) {
    let request = |name| CreateRequest { network: social(), ..lab.request(name) };
    let first = lab.host.create(&request("first"), &silent()).await.expect("a workspace");
    lab.remove(first.id).await;
    let second = lab.host.create(&request("second"), &silent()).await.expect("a workspace");
    assert_eq!(second.network.address, first.network.address);
    lab.remove(second.id).await;
}
