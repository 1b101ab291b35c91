use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::{TempDir, tempdir};

use super::asker::of_session;
use super::*;

/// A clock that stands still until it is moved.
#[derive(Default)]
struct Still(AtomicI64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn wall(&self) -> Timestamp {
        self.now()
    }
}

struct Place {
    dir: TempDir,
    clock: Still,
}

const VAULT: Uuid = Uuid::from_u128(1);

impl Place {
    fn new() -> Self {
        Self { dir: tempdir().unwrap(), clock: Still::default() }
    }

    fn queue(&self) -> Approvals<'_> {
        Approvals::new(self.dir.path().join("state.db"), &self.clock)
    }

    fn later(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds, Ordering::Relaxed);
    }

    fn ask(&self, word: &str, token: Option<&str>) -> Result<Standing, Failure> {
        self.queue().request(VAULT, "agent_ws", asked(word), "it is networked", &of_session(1), token)
    }

    fn waiting(&self, word: &str) -> Approval {
        match self.ask(word, None).unwrap() {
            Standing::Waiting(one) => one,
            other => panic!("{other:?}"),
        }
    }
}

fn asked(word: &str) -> Asked {
    Asked::VaultCommand {
        vault: "agent_ws".to_owned(),
        fork: None,
        argv: vec!["curl".to_owned(), word.to_owned()],
        workdir: "/".to_owned(),
        readonly: false,
        variables: Vec::new(),
        inputs_digest: String::new(),
    }
}

fn owner() -> Granting<'static> {
    Granting::of(&[of_session(2).session()], false, None)
}

const GRANT: Answer = Answer::Grant(GrantScope::Once);

#[test]
fn a_grant_for_once_is_used_by_its_token_and_by_nothing_else() {
    let place = Place::new();
    let one = place.waiting("a");
    assert_eq!(place.waiting("a").id, one.id, "an equal request is the same one");
    let id = one.id.to_string();
    assert!(matches!(place.ask("a", Some(&id)).unwrap(), Standing::Waiting(_)));
    place.queue().answer(&id[..8], GRANT, &owner()).unwrap();
    assert!(matches!(place.ask("a", None).unwrap(), Standing::NeedsToken(_)));
    let other = place.ask("b", Some(&id)).unwrap_err();
    assert_eq!(other.code(), Code::ApprovalRequired);
    assert!(matches!(place.ask("a", Some(&id)).unwrap(), Standing::Granted(_)));
    assert_eq!(place.ask("a", Some(&id)).unwrap_err().code(), Code::ApprovalClosed);
    assert!(matches!(place.ask("a", None).unwrap(), Standing::Waiting(_)));
}

#[test]
fn a_grant_expires() {
    let place = Place::new();
    let id = place.waiting("a").id.to_string();
    place.queue().answer(&id, GRANT, &owner()).unwrap();
    place.later(601);
    assert_eq!(place.ask("a", Some(&id)).unwrap_err().code(), Code::ApprovalClosed);
}

#[test]
fn an_unanswered_request_expires() {
    let place = Place::new();
    let id = place.waiting("a").id.to_string();
    place.later(3601);
    assert_eq!(place.queue().list(false).unwrap(), []);
    assert_eq!(place.queue().list(true).unwrap()[0].state, ApprovalState::Expired);
    assert_eq!(place.queue().answer(&id, GRANT, &owner()).unwrap_err().code(), Code::ApprovalClosed);
    assert_eq!(place.ask("a", Some(&id)).unwrap_err().code(), Code::ApprovalClosed);
}

#[test]
fn whoever_asked_cannot_grant_unless_a_person_confirms_it() {
    let place = Place::new();
    let id = place.waiting("a").id.to_string();
    let asker = of_session(1).session();
    let same = Granting::of(&[asker], false, Some(&|| false));
    assert_eq!(place.queue().answer(&id, GRANT, &same).unwrap_err().code(), Code::NotPermitted);
    let below = Granting::of(&[of_session(2).session(), asker], false, None);
    assert_eq!(place.queue().answer(&id, GRANT, &below).unwrap_err().code(), Code::NotPermitted);
    let inside = Granting::of(&[of_session(2).session()], true, Some(&|| true));
    assert_eq!(place.queue().answer(&id, GRANT, &inside).unwrap_err().code(), Code::NotPermitted);
    assert_eq!(place.queue().find(&id).unwrap().state, ApprovalState::Open);
    place.queue().answer(&id, GRANT, &Granting::of(&[asker], false, Some(&|| true))).unwrap();
}

#[test]
fn a_denied_request_stays_denied_for_a_while() {
    let place = Place::new();
    let id = place.waiting("a").id.to_string();
    place.queue().answer(&id, Answer::Deny, &owner()).unwrap();
    assert!(matches!(place.ask("a", None).unwrap(), Standing::Denied(_)));
    assert!(matches!(place.ask("a", Some(&id)).unwrap(), Standing::Denied(_)));
    place.later(3601);
    assert!(matches!(place.ask("a", None).unwrap(), Standing::Waiting(_)));
}

#[test]
fn a_grant_that_lasts_needs_no_token() {
    let place = Place::new();
    let id = place.waiting("a").id.to_string();
    place.queue().answer(&id, Answer::Grant(GrantScope::Workspace), &owner()).unwrap();
    for _ in 0..2 {
        assert!(matches!(place.ask("a", None).unwrap(), Standing::Granted(_)));
    }
    let elsewhere =
        place.queue().request(Uuid::from_u128(2), "other", asked("a"), "", &of_session(1), None).unwrap();
    assert!(matches!(elsewhere, Standing::Waiting(_)));
}

#[test]
fn what_is_no_token_is_refused_without_a_request() {
    let place = Place::new();
    for token in ["", "abc", "00000000-0000-0000-0000-000000000000", "../../etc"] {
        assert_eq!(place.ask("a", Some(token)).unwrap_err().code(), Code::ApprovalNotFound, "{token}");
    }
    assert_eq!(place.queue().list(true).unwrap(), []);
    assert_eq!(place.queue().find("a").unwrap_err().code(), Code::ApprovalNotFound);
}

#[test]
fn every_vault_has_a_name_that_lists_can_show() {
    for vault in ["agent_ws", "über", "abcdef", "a", &"x".repeat(64), "a-_", "_"] {
        let name = shown_name(vault).unwrap();
        assert!(name.as_str().starts_with("vault"), "{name}");
    }
}
