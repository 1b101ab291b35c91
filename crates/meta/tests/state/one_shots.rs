use agentiso_core::{Code, Explain, WorkspaceId};
use uuid::Uuid;

use crate::builders::State;

#[test]
fn one_shots_are_listed_until_their_workspace_is_removed() {
    let state = State::new();
    let (lasting, first, second) = (state.add("lasting").id, state.add("first").id, state.add("second").id);
    assert_eq!(state.meta.read(|state| state.one_shots()).unwrap(), []);
    for id in [first, second] {
        state.meta.write(|tx| tx.mark_one_shot(id)).unwrap();
    }
    let mut listed = state.meta.read(|state| state.one_shots()).unwrap();
    listed.sort();
    assert!(listed == [first, second] && !listed.contains(&lasting), "{listed:?}");
    state.meta.write(|tx| tx.remove_workspace(first)).unwrap();
    assert_eq!(state.meta.read(|state| state.one_shots()).unwrap(), [second]);
}

#[test]
fn a_workspace_that_does_not_exist_cannot_be_a_one_shot() {
    let state = State::new();
    let unknown = WorkspaceId::from_uuid(Uuid::now_v7());
    let refused = state.meta.write(|tx| tx.mark_one_shot(unknown)).unwrap_err();
    assert_eq!(refused.code(), Code::WorkspaceNotFound);
    assert_eq!(state.meta.read(|state| state.one_shots()).unwrap(), []);
}
