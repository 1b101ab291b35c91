//! Sessions: how they begin, who is there, and how they end.

use std::sync::Arc;
use std::time::Duration;

use agentiso_core::Code;
use agentiso_core::ports::records::{SessionKind, SessionRecords};
use agentiso_engine::{Caller, Identity};
use agentiso_testing::fake::LinkCall;
use serde_json::{Value, json};

use crate::world::{World, skip, user};

/// Longer than a client may be away.
const AWAY: Duration = Duration::from_secs(11);

#[tokio::test]
async fn a_token_shows_who_a_client_is_and_is_not_stored() {
    let world = World::new().await;
    let begun = world.engine.begin_session(SessionKind::Mcp, "claude 1.0").await.unwrap();
    let caller = world.engine.caller_of(&begun.token).await.unwrap();
    assert_eq!((caller.session, caller.client.as_str()), (Some(begun.id), "claude 1.0"));
    let other = world.engine.begin_session(SessionKind::Mcp, "claude 1.0").await.unwrap();
    assert_ne!(begun.token, other.token);
    assert_ne!(begun.id, other.id);
    let stored = world.records.meta().session_if_known(begun.id).await.unwrap().unwrap();
    assert!(!format!("{stored:?}").contains(&begun.token));
}

#[tokio::test]
async fn an_unknown_token_is_refused() {
    let world = World::new().await;
    let begun = world.engine.begin_session(SessionKind::Http, "x").await.unwrap();
    for token in ["", "agentiso-", &begun.token[1..], &begun.token.to_uppercase(), &begun.id.to_string()] {
        let failure = world.engine.caller_of(token).await.unwrap_err();
        assert_eq!(failure.code(), Code::Unauthorized, "{token:?}");
    }
    world.engine.end_session(begun.id).await.unwrap();
    assert_eq!(world.engine.caller_of(&begun.token).await.unwrap_err().code(), Code::Unauthorized);
}

#[tokio::test]
async fn workspaces_of_an_ended_session_stay_and_are_unowned() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let id = world.create(&session, "one").await;
    world.engine.end_session(session.session.unwrap()).await.unwrap();
    assert_eq!(world.owner(id).await, None);
    assert!(!world.engine.has_session(session.session.unwrap()).await);
    let heir = world.session("heir").await;
    assert_eq!(world.sh(&heir, "one", "echo still here").await, "still here\n");
    assert_eq!(world.owner(id).await, heir.session);
}

#[tokio::test]
async fn a_session_that_does_not_exist_cannot_end() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.engine.end_session(session.session.unwrap()).await.unwrap();
    let failure = world.engine.end_session(session.session.unwrap()).await.unwrap_err();
    assert_eq!(failure.code(), Code::SessionNotFound);
}

#[tokio::test]
async fn a_call_of_a_session_that_ends_is_cut_off() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let call = world.call(&session, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
    let end = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        world.engine.end_session(session.session.unwrap()).await.unwrap();
    };
    let (called, ()) = tokio::join!(call, end);
    assert_eq!(called.unwrap_err().code(), Code::NotOwner);
}

#[tokio::test]
async fn a_client_that_is_away_for_long_ends_its_session() {
    let world = World::new().await;
    let session = world.session("agent").await;
    let id = session.session.unwrap();
    drop(world.engine.attend(id));
    tokio::task::yield_now().await;
    skip(Duration::from_secs(5)).await;
    assert!(world.engine.has_session(id).await, "it may be on its way back");
    skip(AWAY).await;
    world.until(async |world| !world.engine.has_session(id).await).await;
}

#[tokio::test]
async fn a_client_that_is_back_in_time_keeps_its_session() {
    let world = World::new().await;
    let (back, gone) =
        (world.session("back").await.session.unwrap(), world.session("gone").await.session.unwrap());
    drop(world.engine.attend(back));
    drop(world.engine.attend(gone));
    tokio::task::yield_now().await;
    let _back = world.engine.attend(back);
    skip(AWAY).await;
    world.until(async |world| !world.engine.has_session(gone).await).await;
    assert!(world.engine.has_session(back).await);
}

#[tokio::test]
async fn a_session_ends_with_the_last_of_its_clients() {
    let world = World::new().await;
    let (shared, gone) =
        (world.session("shared").await.session.unwrap(), world.session("gone").await.session.unwrap());
    let (one, other) = (world.engine.attend(shared), world.engine.attend(shared));
    drop(one);
    drop(world.engine.attend(gone));
    tokio::task::yield_now().await;
    skip(AWAY).await;
    world.until(async |world| !world.engine.has_session(gone).await).await;
    assert!(world.engine.has_session(shared).await);
    drop(other);
    tokio::task::yield_now().await;
    skip(AWAY).await;
    world.until(async |world| !world.engine.has_session(shared).await).await;
}

#[tokio::test]
async fn a_session_that_is_kept_outlives_its_client() {
    let world = World::new().await;
    let (kept, gone) =
        (world.session("kept").await.session.unwrap(), world.session("gone").await.session.unwrap());
    world.engine.attend(kept).keep();
    drop(world.engine.attend(gone));
    tokio::task::yield_now().await;
    skip(AWAY).await;
    world.until(async |world| !world.engine.has_session(gone).await).await;
    assert!(world.engine.has_session(kept).await);
}

#[tokio::test]
async fn fleeting_sessions_end_with_the_daemon_and_others_do_not() {
    let mut world = World::new().await;
    let mut begin = Vec::new();
    for kind in [SessionKind::Mcp, SessionKind::Http, SessionKind::Fleeting] {
        begin.push(world.engine.begin_session(kind, "x").await.unwrap());
    }
    let caller = Caller { session: Some(begin[2].id), client: "x".to_owned() };
    let id = world.create(&caller, "left").await;
    world.reopen().await;
    let mut known = Vec::new();
    for session in &begin {
        known.push(world.engine.has_session(session.id).await);
    }
    assert_eq!(known, [true, true, false]);
    assert_eq!(world.owner(id).await, None);
}

#[tokio::test]
async fn the_longest_silent_session_without_workspaces_makes_room_for_another() {
    let world = World::new().await;
    let owner = world.session("owner").await;
    world.create(&owner, "one").await;
    let present = world.session("present").await.session.unwrap();
    let _present = world.engine.attend(present);
    world.clock.advance(Duration::from_secs(1));
    let oldest = world.session("oldest").await.session.unwrap();
    world.clock.advance(Duration::from_secs(1));
    let mut last = oldest;
    for number in 3..1000 {
        last = world.session(&format!("agent {number}")).await.session.unwrap();
    }
    assert!(world.engine.has_session(oldest).await);
    world.session("one more").await;
    assert!(!world.engine.has_session(oldest).await);
    for stays in [owner.session.unwrap(), present, last] {
        assert!(world.engine.has_session(stays).await);
    }
}

#[tokio::test]
async fn a_session_is_refused_where_all_others_are_in_use() {
    let world = World::new().await;
    let mut present = Vec::new();
    for number in 0..1000 {
        let session = world.session(&format!("agent {number}")).await.session.unwrap();
        present.push(world.engine.attend(session));
    }
    let failure = world.engine.begin_session(SessionKind::Mcp, "x").await.unwrap_err();
    assert_eq!(failure.code(), Code::QuotaExceeded);
    present.pop().unwrap().keep();
    world.engine.begin_session(SessionKind::Mcp, "x").await.unwrap();
}

#[tokio::test]
async fn a_client_is_known_again_by_its_secret_or_by_its_name() {
    let world = World::new().await;
    let secret = "0123456789abcdef";
    let known =
        async |identity: Identity<'_>| world.engine.client_known_by(identity, "x").await.unwrap().session;
    let by_secret = known(Identity::Secret(secret)).await;
    assert_eq!(known(Identity::Secret(secret)).await, by_secret);
    assert_ne!(known(Identity::Secret("0123456789abcdeg")).await, by_secret);
    let by_name = known(Identity::Name("claude")).await;
    assert_eq!(known(Identity::Name("claude")).await, by_name);
    assert_ne!(known(Identity::Name(secret)).await, by_secret, "a name is not a secret");
    assert_eq!(world.records.meta().session_count().await.unwrap(), 4);
}

#[tokio::test]
async fn a_client_that_is_new_twice_at_once_gets_one_session() {
    let world = World::new().await;
    let known = || world.engine.client_known_by(Identity::Name("claude"), "claude");
    let (one, two, three) = tokio::join!(known(), known(), known());
    let one = one.unwrap().session;
    assert_eq!((two.unwrap().session, three.unwrap().session), (one, one));
    assert_eq!(world.records.meta().session_count().await.unwrap(), 1);
}

#[tokio::test]
async fn a_secret_that_can_be_guessed_is_refused() {
    let world = World::new().await;
    for secret in
        ["", "short", "fifteen-letters", &"x".repeat(129), "with a blank in it", "zwanzig-Buchstaben-\u{e4}"]
    {
        let failure = world.engine.client_known_by(Identity::Secret(secret), "x").await.unwrap_err();
        assert_eq!(failure.code(), Code::InvalidArgument, "{secret:?}");
    }
    assert_eq!(world.records.meta().session_count().await.unwrap(), 0);
}

#[tokio::test]
async fn names_of_clients_can_be_shown_in_a_table() {
    let world = World::new().await;
    for (given, shown) in [
        ("claude 1.0", "claude 1.0".to_owned()),
        ("a\u{7}b\nc", "abc".to_owned()),
        ("", "unknown".to_owned()),
        (" \t", "unknown".to_owned()),
        (&"x".repeat(500), "x".repeat(128)),
    ] {
        let begun = world.engine.begin_session(SessionKind::Mcp, given).await.unwrap();
        let stored = world.records.meta().session_if_known(begun.id).await.unwrap().unwrap();
        assert_eq!(stored.client, shown, "{given:?}");
    }
}

#[tokio::test]
async fn a_session_sees_itself_and_the_user_sees_all() {
    let world = World::new().await;
    let one = world.session("one").await;
    world.clock.advance(Duration::from_secs(1));
    let other = world.session("other").await;
    world.create(&one, "mine").await;
    let _present = world.engine.attend(one.session.unwrap());
    let listed = async |caller: &Caller| -> Vec<Value> {
        world.ok(caller, "session_list", json!({})).await["sessions"].as_array().unwrap().clone()
    };
    let all = listed(&user()).await;
    assert_eq!(all.iter().map(|one| one["client"].as_str().unwrap()).collect::<Vec<_>>(), ["one", "other"]);
    assert_eq!((&all[0]["connected"], &all[0]["workspaces"]), (&json!(true), &json!(1)));
    assert_eq!((&all[1]["connected"], &all[1]["workspaces"]), (&json!(false), &json!(0)));
    let own = listed(&other).await;
    assert_eq!((own.len(), &own[0]["client"]), (1, &json!("other")));
}

#[tokio::test]
async fn a_session_that_owns_nothing_is_forgotten_after_a_week_of_silence() {
    let mut world = World::new().await;
    let (silent, owner) = (world.session("silent").await, world.session("owner").await);
    world.create(&owner, "one").await;
    world.clock.advance(Duration::from_secs(6 * 24 * 3600));
    let recent = world.session("recent").await;
    world.clock.advance(Duration::from_secs(2 * 24 * 3600));
    world.reopen().await;
    world.until(async |world| !world.engine.has_session(silent.session.unwrap()).await).await;
    assert!(world.engine.has_session(owner.session.unwrap()).await);
    assert!(world.engine.has_session(recent.session.unwrap()).await);
}

#[tokio::test]
async fn activity_is_stored_now_and_then() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.clock.advance(Duration::from_secs(100));
    world.ok(&session, "workspace_list", json!({})).await;
    world.look().await;
    let now = agentiso_core::ports::Clock::now(&*world.clock);
    world
        .until(async |world| {
            let stored =
                world.records.meta().session_if_known(session.session.unwrap()).await.unwrap().unwrap();
            stored.last_active == now
        })
        .await;
}

#[tokio::test]
async fn the_files_of_a_session_go_when_its_last_call_has_ended() {
    let world = World::new().await;
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    let dir = world.settings.transfers.dir.join("sessions").join(session.session.unwrap().to_string());
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("file"), "content").unwrap();
    let hang = world.host.link_faults().hang(LinkCall::Stat);
    let (engine, caller) = (Arc::clone(&world.engine), session.clone());
    let call = tokio::spawn(async move {
        let arguments = json!({ "workspace_id": "one", "path": "/tmp" });
        crate::actions::call(&engine, &caller, "file_stat", arguments).await
    });
    hang.reached().await;
    world.engine.end_session(session.session.unwrap()).await.unwrap();
    assert!(call.await.unwrap().is_err(), "the call lost its workspace");
    hang.release();
    world.look().await;
    world.until(async |_| !dir.exists()).await;
}
