use agentiso_meta::{MetaError, Variable};

use crate::builders::State;

fn variable(name: &str, by_operator: bool) -> Variable {
    Variable { name: name.to_owned(), by_operator, waiting: !by_operator }
}

#[test]
fn variables_are_stored_by_name_and_those_of_sessions_can_be_removed() {
    let state = State::new();
    let (web, other) = (state.add("web").id, state.add("other").id);
    let all = [variable("MINE", true), variable("THEIRS", false)];
    for workspace in [web, other] {
        state.meta.write(|tx| tx.set_variables(workspace, &all)).unwrap();
    }
    let kept = |id| state.reopen().read(|state| state.variables(id)).unwrap();
    assert_eq!(kept(web), all);
    state.meta.write(|tx| tx.forget_session_variables(web)).unwrap();
    assert_eq!((kept(web), kept(other)), (vec![variable("MINE", true)], all.to_vec()));
    state.meta.write(|tx| tx.set_variables(web, &[])).unwrap();
    assert!(kept(web).is_empty());
    state.meta.write(|tx| tx.remove_workspace(other)).unwrap();
    assert!(kept(other).is_empty());
    let missing = state.meta.write(|tx| tx.set_variables(other, &all)).unwrap_err();
    assert!(matches!(missing, MetaError::WorkspaceNotFound { .. }), "{missing:?}");
    state.meta.verify().unwrap();
}
