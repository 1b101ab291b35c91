use agentiso_core::{Code, Explain, SessionId};
use agentiso_meta::{Claim, MAX_CLIENT, MetaError, Session, SessionKind};
use jiff::SignedDuration;

use crate::builders::{State, now, session};

#[test]
fn a_session_is_read_back_by_id_and_by_token() {
    let state = State::new();
    for kind in [SessionKind::Mcp, SessionKind::Http, SessionKind::Fleeting] {
        let client = "ü".repeat(MAX_CLIENT);
        let session = Session { kind, client, created: now() - SignedDuration::from_secs(9), ..session() };
        state.meta.write(|tx| tx.insert_session(&session)).unwrap();
        let read = |hash| state.reopen().read(|state| state.session_by_token(hash)).unwrap();
        assert_eq!(read(&session.token_hash), Some(session.clone()));
        assert_eq!(read(&[0; 32]), None);
        assert_eq!(state.meta.read(|state| state.session(session.id)).unwrap(), session);
    }
}

#[test]
fn sessions_are_listed_oldest_first() {
    let state = State::new();
    let younger = state.add_session();
    let older = Session { created: now() - SignedDuration::from_hours(1), ..session() };
    state.meta.write(|tx| tx.insert_session(&older)).unwrap();
    assert_eq!(state.meta.read(|state| state.sessions()).unwrap(), [older, younger]);
}

#[test]
fn no_two_sessions_have_the_same_token() {
    let state = State::new();
    let first = state.add_session();
    let second = Session { token_hash: first.token_hash, ..session() };
    assert_eq!(state.meta.write(|tx| tx.insert_session(&second)).unwrap_err().code(), Code::Internal);
    assert_eq!(state.meta.read(|state| state.sessions()).unwrap(), [first]);
}

#[test]
fn an_overlong_client_name_is_rejected() {
    let state = State::new();
    for client in ["x".repeat(MAX_CLIENT + 1), "x".repeat(1 << 20)] {
        let refused = state.meta.write(|tx| tx.insert_session(&Session { client, ..session() })).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(refused.to_string(), "the client's name is longer than 128 characters");
        assert!(refused.remedy().is_some());
    }
    assert!(state.meta.read(|state| state.sessions()).unwrap().is_empty());
}

#[test]
fn workspaces_of_a_removed_session_stay_without_an_owner() {
    let state = State::new();
    let (gone, web) = (state.add_session().id, state.add("web").id);
    state
        .meta
        .write(|tx| {
            tx.set_owner(web, Some(gone))?;
            tx.claim_key(gone, "k", &[1; 32])?;
            tx.remove_session(gone)
        })
        .unwrap();
    assert_eq!(state.meta.read(|state| state.settings(web)).unwrap().owner, None);
    assert!(state.meta.read(|state| state.owned_by(gone)).unwrap().is_empty());
    let its_key = state.meta.write(|tx| tx.settle_key(gone, "k", &true.into())).unwrap_err();
    assert!(matches!(its_key, MetaError::Missing { what: "idempotency key", .. }));
    state.meta.verify().unwrap();
}

#[test]
fn sessions_without_workspaces_are_listed_least_recently_active_first() {
    let state = State::new();
    let [silent, owning, active] = [(); 3].map(|()| state.add_session().id);
    let web = state.add("web").id;
    state
        .meta
        .write(|tx| {
            tx.set_owner(web, Some(owning))?;
            tx.touch_session(silent, now() - SignedDuration::from_hours(1))?;
            tx.touch_session(owning, now() - SignedDuration::from_hours(2))?;
            tx.touch_session(active, now())
        })
        .unwrap();
    let idle = || {
        let sessions = state.meta.read(|state| state.sessions_without_workspaces()).unwrap();
        sessions.into_iter().map(|session| session.id).collect::<Vec<_>>()
    };
    assert_eq!(idle(), [silent, active]);
    state.meta.write(|tx| tx.remove_workspace(web)).unwrap();
    assert_eq!(idle(), [owning, silent, active]);
    assert_eq!(state.meta.read(|state| state.session_count()).unwrap(), 3);
}

#[test]
fn a_removed_session_is_listed_until_its_files_are_gone() {
    let state = State::new();
    let (one, two) = (state.add_session().id, state.add_session().id);
    let ended = || state.reopen().read(|state| state.ended_sessions()).unwrap();
    assert!(ended().is_empty());
    state.meta.write(|tx| tx.remove_session(one)).unwrap();
    assert_eq!(ended(), [one]);
    state.meta.write(|tx| tx.forget_ended_session(two)).unwrap();
    assert_eq!(ended(), [one]);
    state.meta.write(|tx| tx.forget_ended_session(one)).unwrap();
    assert!(ended().is_empty());
}

#[test]
fn an_unknown_session_can_neither_be_changed_nor_own_workspaces() {
    let state = State::new();
    let (nobody, web): (SessionId, _) = (session().id, state.add("web").id);
    let attempts = [
        state.meta.read(|state| state.session(nobody)).map(drop),
        state.meta.write(|tx| tx.touch_session(nobody, now())),
        state.meta.write(|tx| tx.remove_session(nobody)),
        state.meta.write(|tx| tx.set_owner(web, Some(nobody))),
        state.meta.write(|tx| tx.claim_key(nobody, "k", &[1; 32])).map(|claim| assert_eq!(claim, Claim::New)),
    ];
    for attempt in attempts {
        assert!(matches!(attempt, Err(MetaError::Missing { what: "session", .. })), "{attempt:?}");
    }
}
