//! Network rules, addresses and the log of connections.

use std::net::Ipv4Addr;

use agentiso_core::ports::network::NetworkLogFilter;
use agentiso_core::{
    Code, Explain, NetworkEntry, NetworkEvent, NetworkProtocol, NetworkRules, NetworkState, WorkspaceId,
};
use agentiso_meta::{MetaError, RouterPosition, Workspace};
use rusqlite::Connection;

use crate::builders::{State, disk, now, workspace};

fn online(last: u8) -> NetworkState {
    let rules = NetworkRules {
        allow_internet: true,
        allow_domains: Some(vec!["*.example.com".to_owned()]),
        ..NetworkRules::default()
    };
    NetworkState { rules, address: Some(Ipv4Addr::new(10, 99, 0, last)) }
}

#[test]
fn rules_and_address_are_stored_with_the_workspace_and_freed_with_it() {
    let state = State::new();
    let web = state.add("web");
    assert_eq!(web.network, NetworkState::default());
    state.meta.write(|tx| tx.set_network(web.id, &online(2))).unwrap();
    assert_eq!(state.meta.read(|read| read.workspace(web.id)).unwrap().network, online(2));
    assert_eq!(state.meta.read(|read| read.addresses()).unwrap(), online(2).address.into_iter().collect());
    state.meta.write(|tx| tx.set_network(web.id, &NetworkState::default())).unwrap();
    assert!(state.meta.read(|read| read.addresses()).unwrap().is_empty());
    state.meta.write(|tx| tx.set_network(web.id, &online(2))).unwrap();
    state.meta.write(|tx| tx.remove_workspace(web.id)).unwrap();
    assert!(state.meta.read(|read| read.addresses()).unwrap().is_empty());
    let nobody = state.meta.write(|tx| tx.set_network(web.id, &online(2))).unwrap_err();
    assert_eq!(nobody.code(), Code::WorkspaceNotFound);
}

#[test]
fn two_workspaces_never_have_the_same_address() {
    let state = State::new();
    let (web, other) = (state.add("web"), state.add("other"));
    state.meta.write(|tx| tx.set_network(web.id, &online(2))).unwrap();
    let taken = state.meta.write(|tx| tx.set_network(other.id, &online(2))).unwrap_err();
    assert!(matches!(taken, MetaError::AddressTaken { .. }), "{taken}");
    let third = disk(None);
    let taken = state.meta.write(|tx| {
        tx.insert_disk(&third)?;
        tx.insert_workspace(&Workspace { network: online(2), ..workspace("third", third.id) })
    });
    assert!(matches!(taken.unwrap_err(), MetaError::AddressTaken { .. }));
    assert_eq!(state.meta.read(|read| read.workspaces()).unwrap().len(), 2);
    let connection = Connection::open(state.meta.path()).unwrap();
    let copied = connection.execute_batch("UPDATE workspaces SET network = '{}', address = '10.99.0.2'");
    assert!(copied.unwrap_err().to_string().contains("UNIQUE"), "the database ensures it too");
    let unruled = connection.execute_batch("UPDATE workspaces SET network = NULL WHERE name = 'web'");
    assert!(unruled.unwrap_err().to_string().contains("CHECK"), "an address needs rules");
}

#[test]
fn rules_that_cannot_be_understood_are_damage_and_not_a_closed_network() {
    let state = State::new();
    state.add("web");
    let connection = Connection::open(state.meta.path()).unwrap();
    connection.execute_batch(r#"UPDATE workspaces SET network = '{"allow_everything":true}'"#).unwrap();
    assert_eq!(state.meta.verify().unwrap_err().code(), Code::DataDamaged);
}

fn entry(workspace: WorkspaceId, port: u16) -> NetworkEntry {
    NetworkEntry {
        sequence: 0,
        at: now(),
        workspace,
        event: NetworkEvent::Refused,
        protocol: NetworkProtocol::Tcp,
        name: Some("a.example".to_owned()),
        address: None,
        port,
        rule: "allow_internet: false".to_owned(),
        bytes_sent: 1,
        bytes_received: 2,
        duration_ms: 3,
    }
}

#[test]
fn the_log_is_numbered_filtered_bounded_and_outlives_its_workspaces() {
    let state = State::new();
    let (web, other) = (state.add("web").id, state.add("other").id);
    let position = |next| RouterPosition { instance: "one".to_owned(), next };
    assert_eq!(state.meta.read(|read| read.router_position()).unwrap(), None);
    let entries: Vec<_> = (1..=5).map(|port| entry(if port % 2 == 1 { web } else { other }, port)).collect();
    state.meta.write(|tx| tx.append_network_log(&entries, &position(5), 100)).unwrap();
    assert_eq!(state.meta.read(|read| read.router_position()).unwrap(), Some(position(5)));
    let ports = |workspace, after, limit| {
        let filter = NetworkLogFilter { workspace, after, limit };
        let found = state.meta.read(|read| read.network_log(&filter)).unwrap();
        found.iter().map(|entry| (entry.sequence, entry.port)).collect::<Vec<_>>()
    };
    assert_eq!(ports(None, None, 2), [(4, 4), (5, 5)], "the newest, in order");
    assert_eq!(ports(None, Some(1), 2), [(2, 2), (3, 3)], "the oldest after a number");
    assert_eq!(ports(Some(web), Some(0), 9), [(1, 1), (3, 3), (5, 5)]);
    state.meta.write(|tx| tx.remove_workspace(web)).unwrap();
    let more = [entry(other, 6), entry(other, 7)];
    state.meta.write(|tx| tx.append_network_log(&more, &position(7), 3)).unwrap();
    assert_eq!(ports(None, Some(0), 9), [(5, 5), (6, 6), (7, 7)], "only the newest are kept");
    assert_eq!(state.meta.read(|read| read.newest_network_entry()).unwrap(), 7);
    let all = NetworkLogFilter { workspace: None, after: None, limit: 9 };
    let stored = state.meta.read(|read| read.network_log(&all)).unwrap();
    assert_eq!(stored[2], NetworkEntry { sequence: 7, at: stored[2].at, ..entry(other, 7) });
    state.meta.verify().unwrap();
}
