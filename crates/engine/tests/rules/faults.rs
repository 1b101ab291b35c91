//! Records that fail: every read and every write of every action in turn.
//!
//! Whatever fails, nothing that was answered is lost, nothing is deleted that nobody asked to delete, nothing is left
//! that nobody knows, and the action succeeds when it is tried again.

use std::collections::BTreeSet;

use agentiso_core::ports::records::WorkspaceRecords;
use agentiso_core::{Code, Failure};
use agentiso_engine::Caller;
use agentiso_testing::FailAt;
use agentiso_testing::fake::Answer;
use serde_json::{Value, json};

use crate::actions::ALL;
use crate::world::{World, user};

/// More transactions than any action makes.
const MOST: u64 = 200;

/// An action, what has to be there before it, and how to tell that it was done.
struct Case {
    action: &'static str,
    arguments: Value,
    /// Actions of the owner that come first.
    before: &'static [(&'static str, &'static str)],
    /// Whether it may take away what was there.
    removes: bool,
    /// What an answer of it means when it is asked for once more.
    again: &'static [Code],
}

fn case(action: &'static str, arguments: Value) -> Case {
    Case { action, arguments, before: &[], removes: false, again: &[] }
}

/// Every action, with arguments that succeed.
fn cases(world: &World) -> Vec<Case> {
    let one = |more: Value| {
        let mut arguments = json!({ "workspace_id": "one" });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let in_dir = |name: &str| world.records.dir().join(name).to_str().unwrap().to_owned();
    let file = |more: Value| {
        let mut arguments = one(json!({ "path": "/root/file" }));
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let stop: &[_] = &[("workspace_stop", r#"{"workspace_id":"one"}"#)];
    let suspend: &[_] = &[("workspace_suspend", r#"{"workspace_id":"one"}"#)];
    let job: &[_] = &[("exec_start", r#"{"workspace_id":"one","command":"cat","stdin":true}"#)];
    let forward: &[_] = &[("port_forward_add", r#"{"workspace_id":"one","guest_port":7}"#)];
    let export: &[_] = &[];
    vec![
        Case {
            again: &[Code::WorkspaceExists],
            ..case("workspace_create", json!({ "name": "new", "ttl_secs": 1000, "labels": { "a": "b" } }))
        },
        Case {
            removes: true,
            again: &[Code::WorkspaceNotFound],
            ..case("workspace_destroy", one(json!({})))
        },
        Case { before: stop, ..case("workspace_start", one(json!({}))) },
        case("workspace_stop", one(json!({}))),
        case("workspace_list", json!({})),
        case("workspace_info", one(json!({}))),
        case("workspace_logs", one(json!({}))),
        case("workspace_stats", json!({})),
        Case {
            again: &[Code::WorkspaceNotFound],
            ..case("workspace_rename", one(json!({ "new_name": "two" })))
        },
        case("workspace_grow", one(json!({ "disk_gb": 11 }))),
        case("workspace_update", one(json!({ "labels": { "a": "b" }, "memory_mb": 1024 }))),
        case("workspace_suspend", one(json!({}))),
        Case { before: suspend, ..case("workspace_resume", one(json!({}))) },
        Case {
            again: &[Code::WorkspaceExists],
            ..case("workspace_fork", one(json!({ "new_name": "fork" })))
        },
        case("workspace_adopt", json!({ "workspace_id": "orphan" })),
        Case { again: &[Code::NotOwner], ..case("workspace_grant", one(json!({ "session_id": "OTHER" }))) },
        case("workspace_ip", one(json!({}))),
        case("workspace_export", one(json!({ "host_path": in_dir("out.archive") }))),
        Case {
            before: export,
            again: &[Code::WorkspaceExists],
            ..case("workspace_import", json!({ "host_path": in_dir("in.archive"), "name": "imported" }))
        },
        case("exec", one(json!({ "command": "echo hello" }))),
        case("exec_start", one(json!({ "command": "true" }))),
        Case { before: job, ..case("exec_poll", one(json!({ "job_id": 1 }))) },
        Case { before: job, ..case("exec_kill", one(json!({ "job_id": 1 }))) },
        case("exec_list", one(json!({}))),
        Case { before: job, ..case("exec_write", one(json!({ "job_id": 1, "data": "x" }))) },
        case("set_env", one(json!({ "vars": { "A": "1" } }))),
        case("file_read", file(json!({}))),
        case("file_write", file(json!({ "content": "precious\n" }))),
        Case {
            again: &[Code::EditMismatch],
            ..case(
                "file_edit",
                one(json!({ "path": "/root/other", "old_string": "old", "new_string": "new" })),
            )
        },
        case("file_list", one(json!({ "path": "/root" }))),
        case("file_stat", file(json!({}))),
        Case {
            again: &[Code::FileNotFound],
            ..case("file_move", one(json!({ "path": "/root/other", "new_path": "/root/moved" })))
        },
        Case { again: &[Code::FileNotFound], ..case("file_delete", one(json!({ "path": "/root/other" }))) },
        case("file_mkdir", one(json!({ "path": "/root/dir" }))),
        case("file_glob", one(json!({ "path": "/root", "pattern": "*" }))),
        case("file_grep", one(json!({ "path": "/root", "pattern": "precious" }))),
        case(
            "file_transfer",
            one(json!({ "direction": "download", "guest_path": "/root/file", "host_path": in_dir("down") })),
        ),
        Case {
            again: &[Code::SnapshotExists],
            ..case("snapshot_create", one(json!({ "name": "second", "include_memory": true })))
        },
        case("snapshot_restore", one(json!({ "snapshot_name": "first" }))),
        case("snapshot_list", one(json!({}))),
        Case {
            removes: true,
            again: &[Code::SnapshotNotFound],
            ..case("snapshot_delete", one(json!({ "snapshot_name": "first" })))
        },
        case("snapshot_diff", one(json!({ "snapshot_name": "first", "other": "now" }))),
        case("port_forward_add", one(json!({ "guest_port": 8 }))),
        Case { before: forward, ..case("port_forward_remove", one(json!({ "guest_port": 7 }))) },
        Case { before: forward, ..case("port_forward_list", one(json!({}))) },
        case(
            "network_policy",
            one(json!({ "allow_internet": true, "allow_domains": ["a.example"], "ask": "refuse" })),
        ),
        case("network_log", one(json!({}))),
        case("inbox_list", json!({ "all": true })),
        case("inbox_grant", json!({ "request_id": "REQUEST" })),
        case("inbox_deny", json!({ "request_id": "REQUEST" })),
        case("inbox_approver", json!({ "session_id": "OTHER" })),
        case("git_clone", one(json!({ "url": "https://example.org/x.git" }))),
        case("git_status", one(json!({}))),
        case("git_commit", one(json!({ "message": "words" }))),
        case("git_push", one(json!({}))),
        case("git_diff", one(json!({}))),
        case("image_list", json!({})),
        case("image_info", json!({ "name": "debian" })),
        Case {
            again: &[Code::ImageExists],
            ..case("image_pull", json!({ "reference": "example.org/a:1", "name": "pulled" }))
        },
        Case {
            again: &[Code::ImageExists],
            ..case("image_import", json!({ "host_path": in_dir("in.archive"), "name": "imported" }))
        },
        Case {
            again: &[Code::ImageExists],
            ..case("image_build", json!({ "recipe": "debian", "name": "built" }))
        },
        Case { again: &[Code::ImageExists], ..case("image_commit", one(json!({ "name": "committed" }))) },
        Case { again: &[Code::ImageNotFound], ..case("image_remove", json!({ "name": "spare" })) },
        case("timeline", one(json!({}))),
        case("session_list", json!({})),
        case("server_status", json!({})),
    ]
}

/// A world in which the case can be tried.
struct Stage {
    world: World,
    owner: Caller,
}

impl Stage {
    async fn new(case: &str) -> (Self, Case) {
        let world = World::new().await;
        let owner = world.session("owner").await;
        let other = world.session("other").await;
        world
            .host
            .answer("git", Answer { stdout: "abc\nabc\nwords\nmain\n".to_owned(), ..Answer::default() });
        world.host.add_image("spare", Default::default());
        world.create(&owner, "one").await;
        world.create(&user(), "orphan").await;
        world.sh(&owner, "one", "echo precious > /root/file; echo old > /root/other").await;
        world.ok(&owner, "snapshot_create", json!({ "workspace_id": "one", "name": "first" })).await;
        let path = world.records.dir().join("in.archive");
        let export = json!({ "workspace_id": "orphan", "host_path": path.to_str().unwrap() });
        world.ok(&user(), "workspace_export", export).await;
        let case = cases(&world).into_iter().find(|one| one.action == case).unwrap();
        for (action, arguments) in case.before {
            world.ok(&owner, action, serde_json::from_str(arguments).unwrap()).await;
        }
        let request = crate::approvals::raise(&world, &owner, "one", "a.example").await;
        let arguments = case.arguments.to_string().replace("OTHER", &other.session.unwrap().to_string());
        let arguments = arguments.replace("REQUEST", &request);
        let case = Case { arguments: serde_json::from_str(&arguments).unwrap(), ..case };
        (Self { world, owner }, case)
    }

    /// Who carries the case out: agents may not reach every directory of the host, and not approve of what they ask.
    fn caller(&self, case: &Case) -> Caller {
        match case.action {
            "workspace_export" | "workspace_import" | "image_import" | "file_transfer" | "inbox_grant"
            | "inbox_deny" | "inbox_approver" => user(),
            _ => self.owner.clone(),
        }
    }

    async fn call(&self, case: &Case) -> Result<Value, Failure> {
        self.world.call(&self.caller(case), case.action, case.arguments.clone()).await
    }

    /// Everything that must not get lost, in the records and beside them.
    async fn check(&self, case: &Case, shown: &str) {
        let world = &self.world;
        let rows = world.records.meta().workspaces().await.unwrap();
        if !case.removes {
            let one = rows.iter().find(|row| ["one", "two"].contains(&row.name.as_str()));
            let one = one.unwrap_or_else(|| panic!("{shown}: the workspace is gone"));
            let snapshots = world.records.meta().snapshots(one.id).await.unwrap();
            assert!(
                snapshots.iter().any(|one| one.name.as_str() == "first"),
                "{shown}: the snapshot is gone"
            );
            let diff =
                json!({ "workspace_id": one.id.to_string(), "snapshot_name": "first", "file": "/root/file" });
            let diff = world.ok(&user(), "snapshot_diff", diff).await;
            assert_eq!(diff["diff"], "the file is the same at both points", "{shown}: the file differs");
        }
        assert!(rows.iter().any(|row| row.name.as_str() == "orphan"), "{shown}: another workspace is gone");
        let (disks, memories) =
            world.records.meta().read(|read| Ok((read.disks()?, read.memories()?))).unwrap();
        let disks = disks.iter().map(|disk| format!("disk {}", disk.id));
        let memories = memories.iter().map(|memory| format!("memory {}", memory.id));
        let recorded: BTreeSet<String> = disks.chain(memories).collect();
        let kept: BTreeSet<String> =
            world.host.kept().into_iter().filter(|one| !one.starts_with("machine")).collect();
        assert_eq!(kept, recorded, "{shown}: what is kept is not what is recorded");
        let machines = rows.iter().filter(|row| row.machine().is_some()).count();
        assert!(world.host.machines() <= machines, "{shown}: a machine runs that nobody knows");
    }
}

/// Fails one transaction of an action after the other, alone or with all later ones.
async fn try_all(action: &'static str, and_later: bool) {
    let (mut stage, mut case) = Stage::new(action).await;
    for nth in 1..MOST {
        let shown = format!(
            "{action} whose transaction {nth} failed{}",
            if and_later { " with all later ones" } else { "" }
        );
        let fail = FailAt::new(nth, and_later);
        stage.world.records.fail(fail.clone());
        let called = stage.call(&case).await;
        // What is done in the background meets the failure too.
        stage.world.records.succeed();
        let failed = fail.disarm();
        stage.check(&case, &shown).await;
        if called.is_ok() {
            // Nothing that was answered is lost, neither now nor after a restart.
            stage.world.reopen().await;
            stage.check(&case, &shown).await;
            let again = stage.call(&case).await;
            let repeated = again.as_ref().err().is_none_or(|failure| case.again.contains(&failure.code()));
            assert!(repeated, "{shown} was answered and then {again:?}");
            if !case.again.is_empty() {
                assert!(again.is_err(), "{shown} was answered and did not last: {again:?}");
            }
            if !failed {
                return;
            }
            (stage, case) = Stage::new(action).await;
        } else {
            assert!(failed, "{shown}: {called:?}");
            // With all later ones failing, what was begun could not even be undone.
            if and_later || nth % 3 == 0 || case.removes {
                // It can be tried again, also by the next daemon.
                stage.world.reopen().await;
                stage.check(&case, &shown).await;
                let again = stage.call(&case).await;
                let done = again.as_ref().err().is_none_or(|failure| case.again.contains(&failure.code()));
                assert!(done, "{shown} and then {again:?}");
                (stage, case) = Stage::new(action).await;
            }
        }
    }
    panic!("{action} makes more than {MOST} transactions");
}

async fn try_each(actions: impl Iterator<Item = &'static str>) {
    for action in actions {
        for and_later in [false, true] {
            try_all(action, and_later).await;
        }
    }
}

fn group(number: usize) -> impl Iterator<Item = &'static str> {
    ALL.iter()
        .map(|entry| entry.about.name)
        .enumerate()
        .filter(move |(at, _)| at % 4 == number)
        .map(|(_, name)| name)
}

#[tokio::test]
async fn every_action_has_a_case() {
    let world = World::new().await;
    let cases: BTreeSet<&str> = cases(&world).iter().map(|case| case.action).collect();
    for entry in ALL {
        assert!(cases.contains(entry.about.name), "say how to try {}", entry.about.name);
    }
}

#[tokio::test]
async fn records_that_fail_lose_nothing_in_the_first_quarter_of_all_actions() {
    try_each(group(0)).await;
}

#[tokio::test]
async fn records_that_fail_lose_nothing_in_the_second_quarter_of_all_actions() {
    try_each(group(1)).await;
}

#[tokio::test]
async fn records_that_fail_lose_nothing_in_the_third_quarter_of_all_actions() {
    try_each(group(2)).await;
}

#[tokio::test]
async fn records_that_fail_lose_nothing_in_the_last_quarter_of_all_actions() {
    try_each(group(3)).await;
}

#[tokio::test]
async fn a_daemon_that_starts_with_records_that_fail_loses_nothing() {
    for and_later in [false, true] {
        let mut world = World::new().await;
        for name in ["running", "suspended", "crashed"] {
            world.create(&user(), name).await;
            world.sh(&user(), name, "echo precious > /root/file").await;
        }
        let forward = json!({ "workspace_id": "running", "guest_port": 7 });
        world.ok(&user(), "port_forward_add", forward).await;
        world
            .ok(&user(), "exec_start", json!({ "workspace_id": "suspended", "command": "sleep 1000" }))
            .await;
        world.ok(&user(), "workspace_suspend", json!({ "workspace_id": "suspended" })).await;
        let crashed = world.records.meta().find_workspace("crashed").await.unwrap().id;
        world.host.crash(crashed, "power cut");
        let session = world.session("agent").await;
        let kept = world.host.kept();
        for nth in 1..MOST {
            let fail = FailAt::new(nth, and_later);
            world.records.fail(fail.clone());
            // Whether it starts does not matter.
            let _ = world.try_reopen().await;
            world.records.succeed();
            assert_eq!(world.names().await, ["running", "suspended", "crashed"], "transaction {nth}");
            assert_eq!(world.host.kept(), kept, "transaction {nth}");
            if !fail.disarm() {
                break;
            }
        }
        // Its ports are free for the next one.
        world.engine.shut_down(agentiso_engine::Shutdown::LeaveMachines).await;
        world.reopen().await;
        assert!(world.engine.has_session(session.session.unwrap()).await);
        world.ok(&user(), "workspace_resume", json!({ "workspace_id": "suspended" })).await;
        let jobs = world.ok(&user(), "exec_list", json!({ "workspace_id": "suspended" })).await;
        assert_eq!(jobs["jobs"][0]["running"], true, "it continues where it was suspended");
        for name in ["running", "suspended", "crashed"] {
            assert_eq!(world.sh(&user(), name, "cat /root/file").await, "precious\n", "{name}");
        }
        let forwards = world.ok(&user(), "port_forward_list", json!({ "workspace_id": "running" })).await;
        assert_eq!(forwards["forwards"].as_array().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn upkeep_with_records_that_fail_ends_what_is_due_and_nothing_else() {
    let world = World::new().await;
    world.ok(&user(), "workspace_create", json!({ "name": "lasting", "ttl_secs": 1_000_000 })).await;
    world.create(&user(), "plain").await;
    for nth in 1..20 {
        world.ok(&user(), "workspace_create", json!({ "name": "due", "ttl_secs": 60 })).await;
        world.clock.advance(std::time::Duration::from_secs(60));
        world.records.fail(FailAt::new(nth, false));
        world.look().await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        world.records.succeed();
        world.look().await;
        world.until(async |world| world.names().await == ["lasting", "plain"]).await;
    }
    assert_eq!(world.host.machines(), 2);
}
