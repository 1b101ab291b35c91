use agentiso_core::{Code, Explain, WorkspaceId};
use agentiso_meta::{Forward, MetaError};
use uuid::Uuid;

use crate::builders::{State, now};

fn forward(workspace: WorkspaceId, guest_port: u16, host_port: u16) -> Forward {
    Forward { workspace, to: None, guest_port, host_port, created: now() }
}

fn insert(state: &State, forward: &Forward) -> Result<(), MetaError> {
    state.meta.write(|tx| tx.insert_forward(forward))
}

#[test]
fn forwards_are_listed_per_workspace_and_in_total() {
    let state = State::new();
    let (web, db) = (state.add("web").id, state.add("db").id);
    let [https, http, sql] = [forward(web, 443, 8443), forward(web, 80, u16::MAX), forward(db, u16::MAX, 1)];
    for forward in [&https, &http, &sql] {
        insert(&state, forward).unwrap();
    }
    assert_eq!(state.meta.read(|state| state.forwards_of(web)).unwrap(), [http.clone(), https.clone()]);
    assert_eq!(state.meta.read(|state| state.forwards()).unwrap(), [http.clone(), https.clone(), sql]);

    assert!(state.meta.write(|tx| tx.remove_forward(web, 8443)).unwrap());
    assert_eq!(state.meta.read(|state| state.forwards_of(web)).unwrap(), [http]);
    assert!(!state.meta.write(|tx| tx.remove_forward(web, 8443)).unwrap());
    assert!(!state.meta.write(|tx| tx.remove_forward(web, 1)).unwrap(), "it belongs to another workspace");
}

#[test]
fn a_host_port_in_use_is_rejected_without_naming_its_workspace() {
    let state = State::new();
    let (web, db) = (state.add("web").id, state.add("db").id);
    let first = forward(web, 80, 8080);
    insert(&state, &first).unwrap();
    for taken in [forward(db, 80, 8080), forward(web, 81, 8080), first.clone()] {
        let refused = insert(&state, &taken).unwrap_err();
        assert!(matches!(&refused, MetaError::PortTaken { host_port: 8080 }));
        assert_eq!(refused.to_string(), "port 8080 of the host is already forwarded");
        assert_eq!(refused.code(), Code::PortUnavailable);
        assert!(refused.remedy().unwrap().contains("another host port"));
    }
    assert_eq!(state.meta.read(|state| state.forwards()).unwrap(), [first]);
}

#[test]
fn a_guest_port_may_have_several_host_ports() {
    let state = State::new();
    let web = state.add("web").id;
    let both = [forward(web, 80, 8080), forward(web, 80, 8081)];
    for one in &both {
        insert(&state, one).unwrap();
    }
    assert_eq!(state.meta.read(|state| state.forwards_of(web)).unwrap(), both);
}

#[test]
fn port_zero_and_unknown_workspaces_are_rejected() {
    let state = State::new();
    let web = state.add("web").id;
    for bad in [forward(web, 0, 8080), forward(web, 80, 0)] {
        assert_eq!(insert(&state, &bad).unwrap_err().code(), Code::Internal);
    }
    let nobody = WorkspaceId::from_uuid(Uuid::now_v7());
    assert_eq!(insert(&state, &forward(nobody, 80, 8080)).unwrap_err().code(), Code::WorkspaceNotFound);
    let removed = state.meta.write(|tx| tx.remove_forward(nobody, 80)).unwrap_err();
    assert_eq!(removed.code(), Code::WorkspaceNotFound);
    assert!(state.meta.read(|state| state.forwards()).unwrap().is_empty());
}

#[test]
fn removing_a_workspace_frees_its_host_ports() {
    let state = State::new();
    let (web, db) = (state.add("web").id, state.add("db").id);
    insert(&state, &forward(web, 80, 8080)).unwrap();
    state.meta.write(|tx| tx.remove_workspace(web)).unwrap();
    let moved = forward(db, 80, 8080);
    insert(&state, &moved).unwrap();
    assert_eq!(state.meta.read(|state| state.forwards()).unwrap(), [moved]);
}

#[test]
fn a_forward_towards_another_workspace_goes_with_either_of_them() {
    let state = State::new();
    let (web, db, cache) = (state.add("web").id, state.add("db").id, state.add("cache").id);
    let to_db = Forward { to: Some(db), ..forward(web, 80, 8080) };
    let to_cache = Forward { to: Some(cache), ..forward(web, 80, 8081) };
    insert(&state, &to_db).unwrap();
    insert(&state, &to_cache).unwrap();
    state.meta.write(|tx| tx.remove_workspace(db)).unwrap();
    assert_eq!(state.meta.read(|state| state.forwards()).unwrap(), [to_cache]);
    let gone = Forward { to: Some(db), ..forward(web, 80, 8082) };
    assert_eq!(insert(&state, &gone).unwrap_err().code(), Code::WorkspaceNotFound);
    state.meta.write(|tx| tx.remove_workspace(web)).unwrap();
    assert!(state.meta.read(|state| state.forwards()).unwrap().is_empty());
}
