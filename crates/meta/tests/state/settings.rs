use std::collections::BTreeMap;
use std::time::Duration;

use agentiso_core::{Code, Explain, MAX_LABELS, SnapshotId, WorkspaceId};
use agentiso_meta::{MetaError, NextSize, Settings};
use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use crate::builders::{State, now, session};

fn read(state: &State, id: WorkspaceId) -> Settings {
    state.meta.read(|state| state.settings(id)).unwrap()
}

fn defaults(last_used: Timestamp) -> Settings {
    Settings {
        owner: None,
        labels: BTreeMap::new(),
        expires_at: None,
        idle_stop: None,
        last_used,
        suspended: None,
        restart: false,
        stay_stopped: false,
        next_size: None,
    }
}

#[test]
fn the_next_size_and_restart_can_be_set_and_cleared() {
    let state = State::new();
    let web = state.add("web");
    let next_size = Some(NextSize { vcpus: 4, memory_mb: 2048 });
    let set = Settings { restart: true, stay_stopped: true, next_size, ..defaults(web.created) };
    state.meta.write(|tx| tx.set_settings(web.id, &set)).unwrap();
    assert_eq!(read(&state, web.id), set);
    state.meta.write(|tx| tx.set_settings(web.id, &defaults(web.created))).unwrap();
    assert_eq!(read(&state, web.id), defaults(web.created));
    state.meta.write(|tx| tx.set_size(web.id, 4, 2048)).unwrap();
    let resources = state.meta.read(|read| read.workspace(web.id)).unwrap().resources;
    assert_eq!((resources.vcpus, resources.memory_mb, resources.disk_gb), (4, 2048, web.resources.disk_gb));
}

#[test]
fn a_new_workspace_has_default_settings_and_was_last_used_at_its_creation() {
    let state = State::new();
    let (web, db) = (state.add("web"), state.add("db"));
    assert_eq!(read(&state, web.id), defaults(web.created));
    let expected = BTreeMap::from([(web.id, defaults(web.created)), (db.id, defaults(db.created))]);
    assert_eq!(state.meta.read(|state| state.all_settings()).unwrap(), expected);
}

#[test]
fn changing_one_setting_keeps_the_others() {
    let state = State::new();
    let (owner, web, db) = (state.add_session().id, state.add("web"), state.add("db"));
    let later = now() + Duration::from_secs(60);
    state.meta.write(|tx| tx.set_owner(web.id, Some(owner))).unwrap();
    assert_eq!(read(&state, web.id), Settings { owner: Some(owner), ..defaults(web.created) });
    state.meta.write(|tx| tx.touch_workspace(web.id, later)).unwrap();
    assert_eq!(read(&state, web.id), Settings { owner: Some(owner), ..defaults(later) });

    let labelled = Settings {
        labels: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        idle_stop: Some(Duration::from_secs(600)),
        ..defaults(later)
    };
    state.meta.write(|tx| tx.set_settings(db.id, &labelled)).unwrap();
    state.meta.write(|tx| tx.touch_workspace(db.id, later + Duration::from_secs(1))).unwrap();
    state.meta.write(|tx| tx.set_owner(db.id, Some(owner))).unwrap();
    let last_used = later + Duration::from_secs(1);
    assert_eq!(read(&state, db.id), Settings { owner: Some(owner), last_used, ..labelled });

    let owned = || {
        let owned = state.meta.read(|state| state.owned_by(owner)).unwrap();
        owned.into_iter().map(|workspace| workspace.id).collect::<Vec<_>>()
    };
    assert_eq!(owned(), [web.id, db.id]);
    state.meta.write(|tx| tx.set_owner(web.id, None)).unwrap();
    assert_eq!(owned(), [db.id]);
}

#[test]
fn settings_are_removed_with_their_workspace_and_the_suspension_with_its_snapshot() {
    let state = State::new();
    let web = state.add("web");
    let snapshot = state.snap(web.id, "asleep").id;
    let settings = Settings { suspended: Some(snapshot), ..defaults(web.created) };
    state.meta.write(|tx| tx.set_settings(web.id, &settings)).unwrap();
    assert_eq!(read(&state, web.id), settings);
    state.meta.write(|tx| tx.remove_snapshot(snapshot)).unwrap();
    assert_eq!(read(&state, web.id), defaults(web.created));

    state.meta.write(|tx| tx.remove_workspace(web.id)).unwrap();
    assert!(state.meta.read(|state| state.all_settings()).unwrap().is_empty());
    let gone = state.meta.read(|state| state.settings(web.id)).unwrap_err();
    assert_eq!(gone.code(), Code::WorkspaceNotFound);
    state.meta.verify().unwrap();
}

#[test]
fn settings_that_refer_to_unknown_objects_are_rejected() {
    let state = State::new();
    let web = state.add("web");
    let good = defaults(now());
    let set = |id, settings: Settings| state.meta.write(|tx| tx.set_settings(id, &settings)).unwrap_err();

    let nobody = WorkspaceId::from_uuid(Uuid::now_v7());
    assert_eq!(set(nobody, good.clone()).code(), Code::WorkspaceNotFound);
    let touched = state.meta.write(|tx| tx.touch_workspace(nobody, now())).unwrap_err();
    assert_eq!(touched.code(), Code::WorkspaceNotFound);
    let owned = state.meta.write(|tx| tx.set_owner(nobody, None)).unwrap_err();
    assert_eq!(owned.code(), Code::WorkspaceNotFound);

    let no_owner = Settings { owner: Some(session().id), ..good.clone() };
    assert!(matches!(set(web.id, no_owner), MetaError::Missing { what: "session", .. }));
    let no_snapshot = Settings { suspended: Some(SnapshotId::from_uuid(Uuid::now_v7())), ..good };
    assert_eq!(set(web.id, no_snapshot).code(), Code::SnapshotNotFound);
    assert_eq!(read(&state, web.id), defaults(web.created));
}

#[test]
fn invalid_labels_are_rejected() {
    let state = State::new();
    let web = state.add("web");
    let one = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let many = (0..=MAX_LABELS).map(|i| (format!("k{i}"), String::new())).collect();
    for labels in [one("Team", ""), one("", ""), one("team", "a\nb"), one("team", &"x".repeat(257)), many] {
        let settings = Settings { labels, ..defaults(now()) };
        let refused = state.meta.write(|tx| tx.set_settings(web.id, &settings)).unwrap_err();
        assert!(matches!(refused, MetaError::Labels(_)), "{refused}");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert!(refused.remedy().is_some());
    }
    assert_eq!(read(&state, web.id), defaults(web.created));
}

#[test]
fn an_idle_time_is_rounded_up_to_seconds() {
    let state = State::new();
    let web = state.add("web");
    for (asked, kept) in [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (Duration::from_secs(60), 60),
        (Duration::from_millis(60_500), 61),
        (Duration::MAX, i64::MAX.unsigned_abs()),
    ] {
        let settings = Settings { idle_stop: Some(asked), ..defaults(now()) };
        state.meta.write(|tx| tx.set_settings(web.id, &settings)).unwrap();
        assert_eq!(read(&state, web.id).idle_stop, Some(Duration::from_secs(kept)));
    }
}

fn moment() -> impl Strategy<Value = Timestamp> {
    let (first, last) = (Timestamp::MIN.as_microsecond(), Timestamp::MAX.as_microsecond());
    (first..=last).prop_map(|at| Timestamp::from_microsecond(at).unwrap())
}

prop_compose! {
    fn settings()(
        labels in prop::collection::btree_map("[a-z0-9][a-z0-9._/-]{0,62}", "\\PC{0,256}", 0..MAX_LABELS),
        expires_at in prop::option::of(moment()),
        idle_stop in prop::option::of((0..=i64::MAX.unsigned_abs()).prop_map(Duration::from_secs)),
        last_used in moment(),
    ) -> Settings {
        Settings { labels, expires_at, idle_stop, ..defaults(last_used) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn settings_survive_a_round_trip(
        rounds in prop::collection::vec((settings(), any::<bool>(), any::<bool>()), 1..4)
    ) {
        let state = State::new();
        let (web, owner) = (state.add("web").id, state.add_session().id);
        let other = state.add("other");
        let snapshot = state.snap(web, "asleep").id;
        for (mut settings, owned, suspended) in rounds {
            settings.owner = owned.then_some(owner);
            settings.suspended = suspended.then_some(snapshot);
            state.meta.write(|tx| tx.set_settings(web, &settings)).unwrap();
            prop_assert_eq!(&read(&state, web), &settings);
            let all = state.reopen().read(|state| state.all_settings()).unwrap();
            prop_assert_eq!(all, BTreeMap::from([(web, settings), (other.id, defaults(other.created))]));
        }
        state.meta.verify().unwrap();
    }
}
