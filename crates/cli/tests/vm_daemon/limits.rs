//! Quotas of a session, and limits of the whole installation.

use serde_json::{Value, json};

use crate::http::Http;
use crate::place::{Place, until};

/// Asserts that exactly these workspaces exist, and no other machine, directory or database entry.
fn there_is(place: &Place, user: &Http, names: &[&str]) {
    assert_eq!(user.names(), names);
    // A template for a new disk size may still be created in the background.
    until(|| place.machines().len() == names.len());
    // A machine's directory is removed after its process has ended.
    let directories = || std::fs::read_dir(place.path().join("workspaces")).map_or(0, Iterator::count);
    until(|| directories() == names.len());
}

fn usage(session: &Http) -> Value {
    session.act("server_status", json!({}))["usage"].clone()
}

#[test]
fn memory_and_disk_of_a_session_have_their_quotas() {
    let place = Place::configured("[sessions]\nmax_memory_mb = 1100\nmax_disk_gb = 25\n");
    let (user, one) = (place.http(), place.session("one"));
    one.act("workspace_create", json!({"name": "first", "memory_mb": 512, "disk_gb": 10}));
    let memory = ["MiB of memory", "512 are used", "1100 are allowed", "sessions.max_memory_mb"];
    let disk = ["GiB of disk", "10 are used", "25 are allowed", "sessions.max_disk_gb"];
    let before = usage(&one);
    assert_eq!((&before["memory_mb"], &before["disk_gb"]), (&json!(512), &json!(10)));
    one.refused("workspace_create", json!({"name": "more", "memory_mb": 1024})).is("quota_exceeded", &memory);
    one.refused("workspace_create", json!({"name": "more", "disk_gb": 16})).is("quota_exceeded", &disk);
    let forks = json!({"workspace_id": "first", "count": 2});
    one.refused("workspace_fork", forks).is("quota_exceeded", &memory);
    one.refused("workspace_grow", json!({"workspace_id": "first", "disk_gb": 26}))
        .is("quota_exceeded", &disk);
    let reply = one.request("POST", "/v1/workspaces", Some(&json!({"name": "more", "disk_gb": 16})));
    reply.is_refusal(429, "quota_exceeded");
    // Workspaces of other owners cannot be adopted either.
    user.act("workspace_create", json!({"name": "large", "disk_gb": 16}));
    let adopted = one.refused("workspace_adopt", json!({"workspace_id": "large"}));
    adopted.is("quota_exceeded", &disk);
    assert_eq!(one.act("workspace_list", json!({"owned": true}))["count"], 1);
    assert_eq!(usage(&one), before);
    there_is(&place, &user, &["first", "large"]);

    // Failed calls release their reservation, and what fits is allowed.
    one.refused("workspace_create", json!({"name": "none", "base_image": "no-such-image"}))
        .is("image_not_found", &[]);
    one.act("workspace_fork", json!({"workspace_id": "first", "new_name": "second"}));
    assert_eq!((&usage(&one)["memory_mb"], &usage(&one)["disk_gb"]), (&json!(1024), &json!(20)));
    one.refused("workspace_create", json!({"name": "third", "memory_mb": 128, "disk_gb": 1}))
        .is("quota_exceeded", &["1024 are used"]);
    one.act("workspace_destroy", json!({"workspace_id": "first"}));
    one.act("workspace_create", json!({"name": "third", "memory_mb": 512, "disk_gb": 10}));
    there_is(&place, &user, &["large", "second", "third"]);
}

#[test]
fn a_snapshot_with_a_larger_disk_is_restored_only_within_the_quota() {
    let place = Place::configured("[sessions]\nmax_disk_gb = 25\n");
    let one = place.session("one");
    one.act("workspace_create", json!({"name": "web", "disk_gb": 10}));
    let take = |name: &str| json!({"workspace_id": "web", "name": name});
    let restore = |name: &str| json!({"workspace_id": "web", "snapshot_name": name});
    one.act("snapshot_create", take("small"));
    one.act("workspace_grow", json!({"workspace_id": "web", "disk_gb": 14}));
    one.act("snapshot_create", take("large"));
    one.act("snapshot_restore", restore("small"));
    one.act("workspace_create", json!({"name": "other", "disk_gb": 12}));
    assert_eq!(usage(&one)["disk_gb"], 22);
    one.refused("snapshot_restore", restore("large")).is("quota_exceeded", &["GiB of disk", "22 are used"]);
    let fork = json!({"workspace_id": "web", "snapshot_name": "large", "new_name": "fork"});
    one.refused("workspace_fork", fork).is("quota_exceeded", &["GiB of disk"]);
    one.act("workspace_destroy", json!({"workspace_id": "other"}));
    one.act("snapshot_restore", restore("large"));
    assert_eq!(usage(&one)["disk_gb"], 14);
}

#[test]
fn the_snapshots_of_a_session_have_a_quota() {
    let place = Place::configured("[sessions]\nmax_snapshots = 2\n");
    let one = place.session("one");
    one.act("workspace_create", json!({"name": "web"}));
    let take = |name: &str| json!({"workspace_id": "web", "name": name});
    one.act("snapshot_create", take("a"));
    one.act("snapshot_create", take("b"));
    let full = ["snapshots", "2 are used", "sessions.max_snapshots"];
    one.refused("snapshot_create", take("c")).is("quota_exceeded", &full);
    one.act("snapshot_delete", json!({"workspace_id": "web", "snapshot_name": "a"}));
    one.act("snapshot_create", take("c"));
    place.http().act("snapshot_create", take("d"));
    assert_eq!(usage(&one)["snapshots"], 3);
}

#[test]
fn the_number_of_workspaces_of_an_installation_is_limited() {
    let place = Place::configured("[limits]\nmax_workspaces = 2\n");
    let (user, one) = (place.http(), place.session("one"));
    one.act("workspace_create", json!({"name": "first"}));
    let full = ["in this installation", "2 are allowed", "limits.max_workspaces"];
    // Concurrent requests for the last place.
    let race = ["left", "right"].map(|name| {
        let (user, wish) = (user.clone(), json!({"name": name}));
        std::thread::spawn(move || user.request("POST", "/v1/workspaces", Some(&wish)).status)
    });
    let mut statuses = race.map(|thread| thread.join().unwrap());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 429]);
    for client in [&user, &one] {
        client.refused("workspace_create", json!({"name": "third"})).is("quota_exceeded", &full);
        let fork = json!({"workspace_id": "first", "new_name": "third"});
        client.refused("workspace_fork", fork).is("quota_exceeded", &full);
    }
    let failed = place.command(&["create", "--name", "third"]).output().unwrap();
    assert!(
        !failed.status.success() && String::from_utf8_lossy(&failed.stderr).contains("limits.max_workspaces")
    );
    let names = user.names();
    there_is(&place, &user, &names.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(names.len(), 2);
    one.act("workspace_destroy", json!({"workspace_id": "first"}));
    one.act("workspace_create", json!({"name": "third"}));
}

#[test]
fn all_sessions_together_may_make_ten_times_the_calls_of_one() {
    let place = Place::configured("[rate_limit]\ncreate_per_minute = 1\nexec_per_minute = 2\n");
    let user = place.http();
    // Failed calls count. Each new session makes one call of the kind, so only the global limit can apply.
    for (action, arguments, code, most) in [
        ("workspace_create", json!({"base_image": "no-such-image"}), "image_not_found", 10),
        ("exec", json!({"workspace_id": "none", "command": "true"}), "workspace_not_found", 20),
    ] {
        let mut admitted = 0;
        let refused = loop {
            let refusal = user.begin_session("one of many").refused(action, arguments.clone());
            if refusal.code == "rate_limited" {
                break refusal;
            }
            refusal.is(code, &[]);
            admitted += 1;
            // Some capacity is restored over time, but not this much.
            assert!(admitted < 4 * most, "{action}: {admitted} calls were admitted");
        };
        assert!(admitted >= most, "{action}: {admitted}");
        refused.is("rate_limited", &["all sessions together", &most.to_string(), "wait ", "[rate_limit]"]);
        user.refused(action, arguments).is(code, &[]);
    }
    let one = place.session("one");
    assert_eq!(one.act("workspace_list", json!({}))["count"], 0);
    there_is(&place, &user, &[]);
}
