//! Sessions: ownership, quotas, rate limits, idempotency.

use serde_json::{Value, json};

use crate::http::Http;
use crate::place::{Place, until};

fn create(http: &Http, name: &str) -> Value {
    http.act("workspace_create", json!({"name": name}))
}

#[test]
fn a_workspace_belongs_to_its_owner_until_the_owner_is_gone_or_idle() {
    let place = Place::configured(
        "[sessions]\nadopt_idle_secs = 2\n[rate_limit]\nenabled = false\n[limits]\nmax_workspaces = 1\n",
    );
    let (user, one, two) = (place.http(), place.session("one"), place.session("two"));
    let id = create(&one, "mine")["workspace_id"].as_str().unwrap().to_owned();
    // By name, by id, and by the short id that lists show.
    for asked in ["mine", &id, &id[id.len() - 8..]] {
        assert_eq!(one.act("workspace_info", json!({"workspace_id": asked}))["workspace_id"], id);
        two.refused("workspace_info", json!({"workspace_id": asked})).is("not_owner", &["workspace_adopt"]);
    }
    for (action, arguments) in [
        ("exec", json!({"command": "true"})),
        ("file_read", json!({"path": "/etc/hostname"})),
        ("workspace_stop", json!({})),
        ("workspace_destroy", json!({})),
        ("workspace_fork", json!({"new_name": "stolen"})),
        ("snapshot_create", json!({"name": "stolen"})),
        ("set_env", json!({"vars": {"A": "b"}})),
        ("port_forward_add", json!({"guest_port": 80})),
        ("timeline", json!({})),
    ] {
        let mut arguments = arguments;
        arguments["workspace_id"] = json!("mine");
        two.refused(action, arguments).is("not_owner", &["mine"]);
    }
    assert_eq!(user.sh("mine", "hostname"), "mine", "ownership does not restrict the user");
    let listed = two.act("workspace_list", json!({}));
    assert_eq!((&listed["count"], &listed["workspaces"][0]["owned"]), (&json!(1), &json!(false)));
    assert_eq!(two.act("workspace_list", json!({"owned": true}))["count"], 0);

    // An active owner keeps it, even with force.
    let adopt = |force: bool| json!({"workspace_id": "mine", "force": force});
    two.refused("workspace_adopt", adopt(false)).is("not_owner", &["force"]);
    one.act("server_status", json!({}));
    let early = two.refused("workspace_adopt", adopt(true));
    early.is("not_owner", &["idle for 2 s"]);
    let none = two.act("workspace_adopt", json!({}));
    assert_eq!((&none["adopted_count"], &none["error_count"]), (&json!(0), &json!(0)), "{none}");
    until(|| two.request("POST", "/v1/adopt", Some(&adopt(true))).status == 200);
    one.refused("exec", json!({"workspace_id": "mine", "command": "true"})).is("not_owner", &[]);
    assert_eq!(
        two.act("workspace_adopt", adopt(false))["adopted_count"],
        1,
        "adopting it again changes nothing"
    );

    // After its session has ended, a workspace has no owner and belongs to the next session that uses it.
    assert_eq!(two.request("DELETE", "/v1/sessions/current", None).json()["ended"], true);
    let gone = two.request("GET", "/v1/status", None);
    gone.is_refusal(401, "unauthorized");
    let three = place.session("three");
    assert_eq!(three.act("workspace_adopt", json!({}))["adopted"][0]["name"], "mine");
    one.refused("workspace_stop", json!({"workspace_id": "mine"})).is("not_owner", &[]);
    three.request("DELETE", "/v1/sessions/current", None);
    assert_eq!(one.sh("mine", "hostname"), "mine");
    assert_eq!(one.act("workspace_list", json!({"owned": true}))["count"], 1);
}

#[test]
fn concurrent_calls_never_exceed_a_quota() {
    let place = Place::configured("[sessions]\nmax_workspaces = 2\n");
    let (user, one, two) = (place.http(), place.session("one"), place.session("two"));
    create(&one, "first");
    let race: Vec<_> = ["left", "right"]
        .map(|name| {
            let one = one.clone();
            std::thread::spawn(move || one.request("POST", "/v1/workspaces", Some(&json!({"name": name}))))
        })
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let made = race.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(made, 1, "one place was left");
    let refused = race.iter().find(|reply| reply.status != 200).unwrap();
    let refusal = refused.is_refusal(429, "quota_exceeded");
    refusal.is("quota_exceeded", &["2 are allowed", "sessions.max_workspaces"]);
    assert_eq!((user.names().len(), place.machines().len()), (2, 2));
    one.refused("workspace_fork", json!({"workspace_id": "first", "new_name": "third"}))
        .is("quota_exceeded", &[]);
    let status = one.act("server_status", json!({}));
    assert_eq!((&status["usage"]["workspaces"], &status["quota"]["workspaces"]), (&json!(2), &json!(2)));
    // Other sessions have their own quota. Adopting an owned workspace again costs nothing.
    create(&two, "theirs");
    assert_eq!(one.act("workspace_adopt", json!({"workspace_id": "first"}))["adopted_count"], 1);
    one.act("workspace_destroy", json!({"workspace_id": "first"}));
    create(&one, "again");
    assert_eq!(user.names().len(), 3);
}

#[test]
fn a_rate_limited_caller_learns_how_long_to_wait() {
    let place = Place::configured("[rate_limit]\ncreate_per_minute = 2\nexec_per_minute = 3\n");
    let (user, one, two) = (place.http(), place.session("one"), place.session("two"));
    create(&one, "mine");
    let run = json!({"workspace_id": "mine", "command": "true"});
    for _ in 0..3 {
        one.act("exec", run.clone());
    }
    let refused = one.request("POST", "/v1/workspaces/mine/exec", Some(&json!({"command": "true"})));
    refused.is_refusal(429, "rate_limited").is("rate_limited", &["exec", "wait "]);
    assert!(refused.head.contains("retry-after: "), "{}", refused.head);
    // Other kinds of calls, other sessions and the user are not affected.
    one.act("file_stat", json!({"workspace_id": "mine", "path": "/"}));
    user.act("exec", run);
    create(&two, "theirs");
    two.sh("theirs", "true");
    assert_eq!(user.names(), ["mine", "theirs"]);
}

#[test]
fn an_idempotency_key_makes_a_create_happen_once() {
    let place = Place::new();
    let (one, two) = (place.session("one"), place.session("two"));
    let wish = json!({"name": "once", "idempotency_key": "k1"});
    let first = one.act("workspace_create", wish.clone());
    assert_eq!(one.act("workspace_create", wish.clone()), first);
    assert_eq!(one.names(), ["once"]);
    let other = json!({"name": "twice", "idempotency_key": "k1"});
    one.refused("workspace_create", other.clone()).is("idempotency_conflict", &["new key"]);
    one.refused("workspace_create", json!({"idempotency_key": ""})).is("invalid_argument", &[]);
    // Failed requests are not kept, and a key is scoped to its session.
    let fails = json!({"name": "fails", "base_image": "no-such-image", "idempotency_key": "k2"});
    one.refused("workspace_create", fails).is("image_not_found", &["no-such-image"]);
    let fork = json!({"workspace_id": "once", "new_name": "fork", "idempotency_key": "k2"});
    let forked = one.act("workspace_fork", fork.clone());
    assert_eq!(one.act("workspace_fork", fork)["workspace_id"], forked["workspace_id"]);
    assert_eq!(two.act("workspace_create", other)["name"], "twice");
    // The key survives a restart of the daemon.
    place.kill_daemon();
    place.run(&["daemon", "start"]);
    assert_eq!(one.act("workspace_create", wish), first);
    assert_eq!(one.names(), ["once", "fork", "twice"]);
}

#[test]
fn invalid_names_are_rejected_and_leave_nothing() {
    let place = Place::new();
    let one = place.session("one");
    create(&one, "good");
    let long = "x".repeat(64);
    let hostile = [
        "", " ", "-x", "x-", "a_b", "a.b", "../x", "/etc", "a b", "ä", "a\nb", "a\0b", "$(id)", "--force",
        &long,
    ];
    let uuid = "01234567-89ab-7def-8123-456789abcdef";
    for name in hostile {
        one.refused("workspace_create", json!({"name": name})).is("invalid_argument", &[]);
        one.refused("workspace_rename", json!({"workspace_id": "good", "new_name": name}))
            .is("invalid_argument", &[]);
        one.refused("workspace_fork", json!({"workspace_id": "good", "new_name": name}))
            .is("invalid_argument", &[]);
        let found = one.refused("workspace_info", json!({"workspace_id": name}));
        assert!(
            ["workspace_not_found", "invalid_argument"].contains(&found.code.as_str()),
            "{name:?}: {found:?}"
        );
    }
    one.refused("workspace_info", json!({"workspace_id": uuid})).is("workspace_not_found", &[]);
    one.refused("workspace_create", json!({"name": "good"})).is("workspace_exists", &["good"]);
    for image in ["", "../x", "/etc/passwd", "a b", "x\0"] {
        one.refused("workspace_create", json!({"base_image": image})).is("invalid_argument", &[]);
    }
    for name in ["", "a b", "../x", "a/b", "ä", &"x".repeat(129)] {
        one.refused("snapshot_create", json!({"workspace_id": "good", "name": name}))
            .is("invalid_argument", &[]);
    }
    assert_eq!(one.names(), ["good"]);
    assert_eq!(place.machines().len(), 1);
    assert_eq!(one.act("workspace_info", json!({"workspace_id": "good"}))["snapshots"], json!([]));
    assert_eq!(std::fs::read_dir(place.path().join("workspaces")).unwrap().count(), 1);
}
