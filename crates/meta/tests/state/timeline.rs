use std::time::Duration;

use agentiso_core::ports::records::{EventEnd, INTERRUPTED, RUNNING, TimelineRecords};
use agentiso_core::{Code, Explain, WorkspaceId};
use agentiso_meta::{By, Event, EventFilter, MAX_DETAIL, MetaError, NewEvent};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::builders::{State, now, session};

const ALL: EventFilter =
    EventFilter { workspace: None, before: None, by: By::Anyone, without: &[], limit: u32::MAX };

fn event(action: &str, workspace: Option<WorkspaceId>) -> NewEvent {
    NewEvent {
        at: now(),
        workspace,
        workspace_name: None,
        session: None,
        client: "test".to_owned(),
        action: action.to_owned(),
        detail: json!({}),
        duration: Duration::from_micros(1500),
        outcome: "ok".to_owned(),
        changed: None,
    }
}

fn events(state: &State, filter: EventFilter) -> Vec<Event> {
    state.meta.read(|state| state.events(filter)).unwrap()
}

fn actions(state: &State, filter: EventFilter) -> Vec<String> {
    events(state, filter).into_iter().map(|event| event.done.action).collect()
}

#[test]
fn an_event_outlives_its_workspace_and_session() {
    let state = State::new();
    let (web, session) = (state.add("web"), state.add_session().id);
    let full = NewEvent {
        workspace_name: Some(web.name),
        session: Some(session),
        detail: json!({ "argv": ["ls", "ü"] }),
        outcome: Code::Timeout.to_string(),
        changed: Some("2 files".to_owned()),
        ..event("exec", Some(web.id))
    };
    let id = state.meta.write(|tx| tx.append_event(&full)).unwrap();
    state
        .meta
        .write(|tx| {
            tx.remove_workspace(web.id)?;
            tx.remove_session(session)
        })
        .unwrap();
    let filter = EventFilter { workspace: Some(web.id), ..ALL };
    assert_eq!(events(&state, filter), [Event { id, done: full }]);
    state.meta.verify().unwrap();
}

#[test]
fn events_are_paged_newest_first_and_filtered_by_workspace() {
    let state = State::new();
    let (web, db) = (state.add("web").id, state.add("db").id);
    let added = ["a", "b", "c", "d", "e"].map(|action| {
        event(action, if action == "e" { None } else { Some(if action < "c" { web } else { db }) })
    });
    state.meta.write(|tx| tx.append_events(&added)).unwrap();
    assert_eq!(actions(&state, ALL), ["e", "d", "c", "b", "a"]);
    assert_eq!(actions(&state, EventFilter { workspace: Some(web), ..ALL }), ["b", "a"]);
    assert_eq!(actions(&state, EventFilter { limit: 0, ..ALL }), [""; 0]);

    let page = events(&state, EventFilter { limit: 2, ..ALL });
    let before = page.last().map(|event| event.id);
    assert_eq!(actions(&state, EventFilter { before, limit: 2, ..ALL }), ["c", "b"]);
    assert_eq!(actions(&state, EventFilter { workspace: Some(db), before, ..ALL }), ["c"]);
}

#[test]
fn successful_events_of_chosen_actions_are_left_out_before_pages_are_cut() {
    let state = State::new();
    let web = state.add("web").id;
    let failed = NewEvent { outcome: Code::NotOwner.to_string(), ..event("read", Some(web)) };
    let of = |action| event(action, Some(web));
    let added = [of("write"), of("read"), failed, of("list"), of("read"), of("list")];
    state.meta.write(|tx| tx.append_events(&added)).unwrap();
    let chosen = EventFilter { without: &["read", "list"], limit: 2, ..ALL };
    assert_eq!(actions(&state, chosen), ["read", "write"]);
    assert_eq!(actions(&state, EventFilter { workspace: Some(web), ..chosen }), ["read", "write"]);
    assert_eq!(actions(&state, EventFilter { limit: 2, ..ALL }), ["list", "read"]);
}

#[test]
fn only_the_newest_events_are_kept_and_positions_are_not_reused() {
    let state = State::new();
    let append = |action: &str| state.meta.write(|tx| tx.append_event(&event(action, None))).unwrap();
    let prune = |keep| state.meta.write(|tx| tx.prune_events(keep)).unwrap();
    let last = ["a", "b", "c"].map(append)[2];
    assert_eq!((prune(u64::MAX), prune(3)), (0, 0));
    assert_eq!(prune(2), 1);
    assert_eq!(actions(&state, ALL), ["c", "b"]);
    assert_eq!(prune(0), 2);
    assert!(events(&state, ALL).is_empty());
    assert!(append("d") > last);
}

#[test]
fn an_overlong_event_is_rejected_with_its_whole_transaction() {
    let state = State::new();
    let fits = NewEvent { detail: Value::String("x".repeat(MAX_DETAIL - 2)), ..event("fits", None) };
    state.meta.write(|tx| tx.append_event(&fits)).unwrap();

    // As many characters as allowed, but more bytes.
    let detail = Value::String("ü".repeat(MAX_DETAIL / 2));
    let too_long = [
        NewEvent { detail, ..event("long", None) },
        NewEvent { client: "x".repeat(129), ..event("long", None) },
    ];
    for event_too_long in too_long {
        let together = [event("first", None), event_too_long];
        let refused = state.meta.write(|tx| tx.append_events(&together)).unwrap_err();
        assert!(matches!(refused, MetaError::TooLong { .. }), "{refused}");
        assert_eq!(refused.code(), Code::InvalidArgument);
    }
    assert_eq!(actions(&state, ALL), ["fits"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_text_in_an_event_survives_a_round_trip(
        client in ".{0,128}", action in any::<String>(), text in ".{0,300}",
        changed in any::<Option<String>>(), micros in 0..=i64::MAX.unsigned_abs(),
    ) {
        let state = State::new();
        let done = NewEvent {
            client,
            detail: json!({ "text": text }),
            changed,
            session: Some(session().id),
            duration: Duration::from_micros(micros),
            ..event(&action, None)
        };
        let id = state.meta.write(|tx| tx.append_event(&done)).unwrap();
        prop_assert_eq!(events(&state, ALL), [Event { id, done }]);
    }
}

#[tokio::test]
async fn an_event_that_was_begun_is_completed_once_and_one_that_was_not_is_interrupted() {
    let state = State::new();
    let records: &dyn TimelineRecords = &state.meta;
    let begun = records.begin_event(&event("workspace_create", None)).await.unwrap();
    let left = records.begin_event(&event("exec", None)).await.unwrap();
    assert_eq!(events(&state, ALL)[0].done.outcome, RUNNING);
    let newest = records.newest_event().await.unwrap();
    assert_eq!(newest, left);
    // Of the daemon that looks: not its business.
    let own = records.begin_event(&event("exec", None)).await.unwrap();
    let web = state.add("web");
    let end = EventEnd {
        id: begun,
        workspace: Some((web.id, web.name.clone())),
        duration: Duration::from_millis(7),
        outcome: "ok".to_owned(),
        changed: Some("created web".to_owned()),
    };
    let forgotten = EventEnd { id: 1_000_000, ..end.clone() };
    records.complete_events(&[end, forgotten]).await.unwrap();
    records.interrupt_events(newest).await.unwrap();
    let all = events(&state, ALL);
    let outcomes: Vec<_> = all.iter().map(|event| (event.id, event.done.outcome.as_str())).collect();
    assert_eq!(outcomes, [(own, RUNNING), (left, INTERRUPTED), (begun, "ok")]);
    let created = &all[2].done;
    assert_eq!((created.workspace, &created.workspace_name), (Some(web.id), &Some(web.name)));
    assert_eq!(
        (created.duration, created.changed.as_deref()),
        (Duration::from_millis(7), Some("created web"))
    );
}
