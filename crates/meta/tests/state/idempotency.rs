use std::sync::Barrier;

use agentiso_core::{Code, Explain, SessionId};
use agentiso_meta::{Claim, MAX_KEY, MetaError};
use jiff::SignedDuration;
use serde_json::json;

use crate::builders::{State, now};

const REQUEST: &[u8; 32] = &[1; 32];

fn claim(state: &State, session: SessionId, key: &str) -> Claim {
    state.meta.write(|tx| tx.claim_key(session, key, REQUEST)).unwrap()
}

#[test]
fn a_repeated_request_gets_the_recorded_outcome() {
    let state = State::new();
    let session = state.add_session().id;
    assert_eq!(claim(&state, session, "k"), Claim::New);
    assert_eq!(claim(&state, session, "k"), Claim::InProgress);
    let outcome = json!({ "id": 7, "none": null });
    state.meta.write(|tx| tx.settle_key(session, "k", &outcome)).unwrap();
    assert_eq!(claim(&state, session, "k"), Claim::Done(outcome));
    assert_eq!(claim(&state, session, "other"), Claim::New);
    assert_eq!(claim(&state, state.add_session().id, "k"), Claim::New, "keys are scoped to a session");
}

#[test]
fn a_null_outcome_is_an_outcome() {
    let state = State::new();
    let session = state.add_session().id;
    claim(&state, session, "k");
    state.meta.write(|tx| tx.settle_key(session, "k", &json!(null))).unwrap();
    assert_eq!(claim(&state, session, "k"), Claim::Done(json!(null)));
}

#[test]
fn a_different_request_with_the_same_key_is_detected() {
    let state = State::new();
    let session = state.add_session().id;
    let other = || state.meta.write(|tx| tx.claim_key(session, "k", &[2; 32])).unwrap();
    claim(&state, session, "k");
    assert_eq!(other(), Claim::Mismatch);
    state.meta.write(|tx| tx.settle_key(session, "k", &json!(1))).unwrap();
    assert_eq!(other(), Claim::Mismatch);
    assert_eq!(claim(&state, session, "k"), Claim::Done(json!(1)), "the first is unchanged");
}

#[test]
fn a_dropped_key_can_be_claimed_again() {
    let state = State::new();
    let session = state.add_session().id;
    claim(&state, session, "k");
    for _ in 0..2 {
        state.meta.write(|tx| tx.drop_key(session, "k")).unwrap();
    }
    let settled = state.meta.write(|tx| tx.settle_key(session, "k", &json!(1))).unwrap_err();
    assert!(matches!(settled, MetaError::Missing { what: "idempotency key", .. }));
    assert_eq!(claim(&state, session, "k"), Claim::New);
}

#[test]
fn only_keys_of_unfinished_requests_are_released() {
    let state = State::new();
    let session = state.add_session().id;
    claim(&state, session, "died");
    claim(&state, session, "done");
    state.meta.write(|tx| tx.settle_key(session, "done", &json!(1))).unwrap();
    assert_eq!(state.meta.write(|tx| tx.drop_unsettled_keys()).unwrap(), 1);
    assert_eq!(claim(&state, session, "died"), Claim::New);
    assert_eq!(claim(&state, session, "done"), Claim::Done(json!(1)));
}

#[test]
fn only_old_keys_are_pruned() {
    let state = State::new();
    let session = state.add_session().id;
    claim(&state, session, "k");
    let hour = SignedDuration::from_hours(1);
    assert_eq!(state.meta.write(|tx| tx.prune_keys(now() - hour)).unwrap(), 0);
    assert_eq!(claim(&state, session, "k"), Claim::InProgress);
    assert_eq!(state.meta.write(|tx| tx.prune_keys(now() + hour)).unwrap(), 1);
    assert_eq!(claim(&state, session, "k"), Claim::New);
}

#[test]
fn an_overlong_key_is_rejected() {
    let state = State::new();
    let session = state.add_session().id;
    assert_eq!(claim(&state, session, &"ü".repeat(MAX_KEY)), Claim::New);
    let long = "x".repeat(MAX_KEY + 1);
    let refused = state.meta.write(|tx| tx.claim_key(session, &long, REQUEST)).unwrap_err();
    assert!(matches!(refused, MetaError::TooLong { what: "idempotency key", max: MAX_KEY, .. }), "{refused}");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[test]
fn concurrent_identical_requests_are_carried_out_once() {
    let state = State::new();
    let session = state.add_session().id;
    let start = Barrier::new(4);
    let send = || {
        let meta = state.reopen();
        start.wait();
        meta.write(|tx| tx.claim_key(session, "k", REQUEST)).unwrap()
    };
    let claims: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(send));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::New).count(), 1);
    assert_eq!(claims.iter().filter(|claim| **claim == Claim::InProgress).count(), 3);
}
