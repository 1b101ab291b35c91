//! The one way in which commands start: what holds for one kind of command holds for all of them.

use agentiso_core::admission::{Principal, Ruling};
use agentiso_core::ports::CommandPolicy;
use agentiso_core::ports::host::OciDefaults;
use agentiso_core::ports::link::{Exec, User};
use agentiso_core::wire::ExecSpec;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_engine::Caller;
use agentiso_testing::fake::{Answer, HostCall, LinkCall};
use serde_json::{Value, json};

use crate::world::{World, skip, user};

/// The ways to start a command. Git runs scripts of its own.
const WAYS: [&str; 5] = ["exec", "job", "git", "stream", "terminal"];
/// The ways in which the caller says what is run, where and as whom.
const FREE_WAYS: [&str; 4] = ["exec", "job", "stream", "terminal"];

/// What a caller may say about a command.
#[derive(Clone, Default)]
struct Asked {
    line: &'static str,
    env: &'static [(&'static str, &'static str)],
    workdir: Option<&'static str>,
    user: Option<&'static str>,
}

async fn start(world: &World, caller: &Caller, way: &str, asked: Asked) -> Result<Value, Failure> {
    let env: Value = asked
        .env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut arguments = json!({ "workspace_id": "one", "command": asked.line, "env": env });
    if let Some(workdir) = asked.workdir {
        arguments["workdir"] = json!(workdir);
    }
    if let Some(user) = asked.user {
        arguments["user"] = json!(user);
    }
    match way {
        "exec" => world.call(caller, "exec", arguments).await,
        "job" => world.call(caller, "exec_start", arguments).await,
        "git" => world.call(caller, "git_status", json!({ "workspace_id": "one" })).await,
        way => {
            let spec = ExecSpec {
                argv: ["/bin/sh", "-c", asked.line].map(|word| word.as_bytes().to_vec().into()).to_vec(),
                env: asked
                    .env
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec().into()))
                    .collect(),
                workdir: asked.workdir.map(str::to_owned),
                user: asked.user.map(str::to_owned),
                tty: (way == "terminal").then_some((80, 24)),
                ..ExecSpec::default()
            };
            let started = world.engine.interact(caller, "one", spec).await;
            started.map(|_| Value::Null).map_err(|not_started| not_started.failure)
        }
    }
}

/// The request that reached the machine last.
fn request(world: &World) -> Exec {
    world.host.requested().pop().unwrap()
}

fn value(exec: &Exec, name: &str) -> Option<String> {
    let found = exec.env.iter().rev().find(|(known, _)| known == name.as_bytes());
    found.map(|(_, value)| String::from_utf8(value.clone()).unwrap())
}

/// A world with a workspace of an image that says how it wants to be run.
async fn with_image() -> World {
    let world = World::new().await;
    world.host.answer("git", Answer::default());
    let defaults = OciDefaults {
        env: vec![
            "COLOUR=image".to_owned(),
            "SHAPE=image".to_owned(),
            "EMPTY=".to_owned(),
            "broken".to_owned(),
        ],
        workdir: Some("/var".to_owned()),
        user: Some("user".to_owned()),
        cmd: vec!["never".to_owned()],
    };
    world.host.add_image("service", defaults);
    world.ok(&user(), "workspace_create", json!({ "name": "one", "base_image": "service" })).await;
    world
}

#[tokio::test]
async fn a_missing_program_without_a_shell_names_the_one_to_use() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let apt = json!({ "workspace_id": "one", "path": "/usr/bin/apt-get", "content": "" });
    world.ok(&user(), "file_write", apt).await;
    for (argv, remedy) in [
        (&["apk", "add", "git"][..], "apt-get update && apt-get install -y git"),
        (&["nonsense"], "check the command's name"),
    ] {
        let argv = argv.iter().map(|word| word.as_bytes().to_vec().into()).collect();
        let spec = ExecSpec { argv, ..ExecSpec::default() };
        let refused = world.engine.interact(&user(), "one", spec).await.err().unwrap().failure;
        assert_eq!(refused.code(), Code::GuestFailed);
        assert!(refused.remedy().unwrap().contains(remedy), "{refused:?}");
    }
}

#[tokio::test]
async fn what_an_image_defines_holds_for_every_command() {
    for way in WAYS {
        let world = with_image().await;
        start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap();
        let exec = request(&world);
        assert_eq!(value(&exec, "COLOUR").as_deref(), Some("image"), "{way}");
        assert_eq!(value(&exec, "EMPTY").as_deref(), Some(""), "{way}");
        assert_eq!(exec.workdir.as_deref(), Some(&b"/var"[..]), "{way}");
        assert_eq!(exec.user, Some(User::Name("user".to_owned())), "{way}");
    }
}

#[tokio::test]
async fn what_a_caller_says_wins_over_the_image() {
    for way in FREE_WAYS {
        let world = with_image().await;
        let asked = Asked { line: "true", env: &[("COLOUR", "own")], workdir: Some("/tmp"), user: Some("0") };
        start(&world, &user(), way, asked).await.unwrap();
        let exec = request(&world);
        assert_eq!(value(&exec, "COLOUR").as_deref(), Some("own"), "{way}");
        assert_eq!(value(&exec, "SHAPE").as_deref(), Some("image"), "{way}");
        assert_eq!(exec.workdir.as_deref(), Some(&b"/tmp"[..]), "{way}");
        assert_eq!(exec.user, Some(User::Id { uid: 0, gid: 0 }), "{way}");
    }
}

#[tokio::test]
async fn variables_of_the_workspace_reach_every_command_and_win_over_the_image() {
    for way in WAYS {
        let world = with_image().await;
        let set = json!({ "workspace_id": "one", "vars": { "COLOUR": "set", "TOKEN": "abc" } });
        world.ok(&user(), "set_env", set).await;
        start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap();
        assert_eq!(value(&request(&world), "COLOUR"), None, "{way}: the machine has it");
        let id = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await["workspace_id"]
            .clone();
        let known = world.host.variables(id.as_str().unwrap().parse().unwrap());
        let expected =
            [("COLOUR", "set"), ("TOKEN", "abc")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(known, expected, "{way}");
    }
}

#[tokio::test]
async fn an_image_that_was_removed_defines_nothing_and_one_that_cannot_be_read_is_an_error() {
    for way in WAYS {
        let world = with_image().await;
        world.host.faults().fail(HostCall::Image, Code::ImageNotFound);
        start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap();
        assert_eq!(request(&world).user, None, "{way}");
        let before = world.host.requested().len();
        world.host.faults().fail(HostCall::Image, Code::Io);
        let failure =
            start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap_err();
        assert_eq!(failure.code(), Code::Io, "{way}");
        assert_eq!(world.host.requested().len(), before, "{way}: nothing runs as somebody else");
    }
}

#[tokio::test]
async fn a_stopped_workspace_is_started_for_every_command() {
    for way in WAYS {
        let world = with_image().await;
        for stop in ["workspace_stop", "workspace_suspend"] {
            world.ok(&user(), stop, json!({ "workspace_id": "one" })).await;
            start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap();
            let info = world.ok(&user(), "workspace_info", json!({ "workspace_id": "one" })).await;
            assert_eq!(info["state"], "running", "{way} after {stop}");
        }
    }
}

#[tokio::test]
async fn a_stopped_workspace_stays_stopped_where_that_is_configured() {
    for way in WAYS {
        let world = World::with(|settings| settings.start_on_use = false).await;
        world.create(&user(), "one").await;
        world.ok(&user(), "workspace_stop", json!({ "workspace_id": "one" })).await;
        let failure =
            start(&world, &user(), way, Asked { line: "true", ..Asked::default() }).await.unwrap_err();
        assert_eq!(failure.code(), Code::WorkspaceNotRunning, "{way}");
    }
}

#[tokio::test]
async fn a_command_that_cannot_start_says_why_in_the_same_words_everywhere() {
    for way in FREE_WAYS {
        let world = World::new().await;
        world.create(&user(), "one").await;
        for (asked, code) in [
            (Asked { line: "true", workdir: Some("/no/such/place"), ..Asked::default() }, Code::FileNotFound),
            (Asked { line: "true", workdir: Some("/etc/passwd"), ..Asked::default() }, Code::NotADirectory),
            (Asked { line: "true", user: Some("nobody-here"), ..Asked::default() }, Code::UserNotFound),
            (Asked { line: "true", user: Some("1000:staff"), ..Asked::default() }, Code::InvalidArgument),
            (Asked { line: "true", env: &[("PATH", "/evil")], ..Asked::default() }, Code::InvalidArgument),
            (Asked { line: "true", env: &[("LD_PRELOAD", "x")], ..Asked::default() }, Code::InvalidArgument),
            (Asked { line: "a\0b", ..Asked::default() }, Code::InvalidArgument),
        ] {
            let failure = start(&world, &user(), way, asked).await.unwrap_err();
            assert_eq!(failure.code(), code, "{way}: {failure}");
        }
    }
}

#[tokio::test]
async fn what_no_machine_could_run_does_not_reach_one() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    for command in ["", " \n", &"x".repeat((2 << 20) + 1)] {
        for action in ["exec", "exec_start"] {
            let arguments = json!({ "workspace_id": "one", "command": command });
            world.refused(&user(), action, arguments, Code::InvalidArgument).await;
        }
    }
    assert!(world.host.requested().is_empty());
}

#[tokio::test]
async fn a_long_command_is_stored_and_leaves_nothing() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let line = format!("echo {}", "x".repeat(300_000));
    world.call(&user(), "exec", json!({ "workspace_id": "one", "command": line })).await.unwrap();
    let requests = world.host.requested();
    assert_eq!(requests.len(), 2, "it is stored first");
    assert!(requests.iter().all(|exec| exec.argv.iter().all(|word| word.len() < 128 * 1024)));
    assert_eq!(requests[0].timeout_ms, Some(60_000));
}

#[tokio::test]
async fn lines_run_in_bash_and_in_sh_where_there_is_no_bash() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let run =
        async || world.ok(&user(), "exec", json!({ "workspace_id": "one", "command": "echo hi" })).await;
    assert_eq!(run().await["shell"], "/bin/bash");
    world.ok(&user(), "file_delete", json!({ "workspace_id": "one", "path": "/bin/bash" })).await;
    let done = run().await;
    assert_eq!(
        (&done["shell"], &done["stdout"]),
        (&json!("/bin/sh"), &json!("hi\n")),
        "it was removed meanwhile"
    );
    assert_eq!(run().await["shell"], "/bin/sh");
}

#[tokio::test]
async fn an_exit_code_is_a_result_and_a_signal_too() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let run =
        async |line: &str| world.ok(&user(), "exec", json!({ "workspace_id": "one", "command": line })).await;
    let done = run("echo out; echo err >&2; exit 3").await;
    assert_eq!(
        (&done["exit_code"], &done["stdout"], &done["stderr"]),
        (&json!(3), &json!("out\n"), &json!("err\n"))
    );
    let done = run("kill -9 $$").await;
    assert_eq!((&done["exit_code"], &done["signal"]), (&json!(137), &json!(9)));
}

#[tokio::test]
async fn input_reaches_the_command() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let arguments = json!({ "workspace_id": "one", "command": "cat", "stdin": "some words" });
    assert_eq!(world.ok(&user(), "exec", arguments).await["stdout"], "some words");
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_and_that_is_a_result() {
    let operator = user();
    let world = World::new().await;
    world.create(&user(), "one").await;
    let arguments = json!({ "workspace_id": "one", "command": "echo begun; sleep 1000", "timeout_secs": 10 });
    let call = world.call(&operator, "exec", arguments);
    let pass = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        skip(std::time::Duration::from_secs(11)).await;
    };
    let (done, ()) = tokio::join!(call, pass);
    let done = done.unwrap();
    assert_eq!(
        (&done["timed_out"], &done["exit_code"], &done["stdout"]),
        (&json!(true), &Value::Null, &json!("begun\n"))
    );
}

#[tokio::test]
async fn limits_of_a_call_are_checked_before_anything_runs() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    for (key, value) in [
        ("timeout_secs", 0),
        ("timeout_secs", 86_401),
        ("max_output_bytes", (8 << 20) + 1),
        ("background_after_secs", 86_401),
    ] {
        let arguments = json!({ "workspace_id": "one", "command": "true", key: value });
        world.refused(&user(), "exec", arguments, Code::InvalidArgument).await;
    }
    assert!(world.host.requested().is_empty());
}

#[tokio::test]
async fn a_command_that_is_slow_becomes_a_job() {
    let operator = user();
    let world = World::new().await;
    world.create(&user(), "one").await;
    let arguments =
        json!({ "workspace_id": "one", "command": "echo begun; sleep 1000", "background_after_secs": 5 });
    let call = world.call(&operator, "exec", arguments);
    let pass = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        skip(std::time::Duration::from_secs(6)).await;
    };
    let (done, ()) = tokio::join!(call, pass);
    let done = done.unwrap();
    assert_eq!((&done["exit_code"], &done["stdout"]), (&Value::Null, &json!("begun\n")));
    let jobs = world.ok(&user(), "exec_list", json!({ "workspace_id": "one" })).await;
    assert_eq!((&jobs["jobs"][0]["job_id"], &jobs["jobs"][0]["running"]), (&done["job_id"], &json!(true)));
}

#[tokio::test]
async fn a_machine_that_crashes_under_a_call_says_what_it_printed_last() {
    let operator = user();
    for way in ["exec", "stream"] {
        let world = World::new().await;
        let id = world.create(&user(), "one").await;
        let crash = async {
            world.until(async |world| !world.host.requested().is_empty()).await;
            world.host.crash(id, "Kernel panic: out of memory");
        };
        let failure = match way {
            "exec" => {
                let call =
                    world.call(&operator, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
                tokio::join!(call, crash).0.unwrap_err()
            }
            _ => {
                let spec = ExecSpec {
                    argv: vec![b"sleep".to_vec().into(), b"1000".to_vec().into()],
                    ..ExecSpec::default()
                };
                let mut running =
                    world.engine.interact(&user(), "one", spec).await.map_err(|error| error.failure).unwrap();
                crash.await;
                running.next().await.unwrap_err()
            }
        };
        assert_eq!(failure.code(), Code::VmCrashed, "{way}");
        assert!(failure.message().contains("Kernel panic"), "{way}: {failure}");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_off_on_purpose_says_by_what() {
    let operator = user();
    for (action, arguments, words) in [
        ("workspace_stop", json!({ "workspace_id": "one", "force": true }), "was stopped"),
        ("workspace_destroy", json!({ "workspace_id": "one" }), "was destroyed"),
    ] {
        let world = World::new().await;
        world.create(&user(), "one").await;
        let call = world.call(&operator, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
        let end = async {
            world.until(async |world| !world.host.requested().is_empty()).await;
            world.ok(&user(), action, arguments).await;
        };
        let (called, ()) = tokio::join!(call, end);
        let failure = called.unwrap_err();
        assert_eq!(failure.code(), Code::Cancelled, "{action}: {failure}");
        assert!(failure.message().contains(words), "{action}: {failure}");
    }
}

#[tokio::test]
async fn a_machine_that_stands_still_keeps_nobody_waiting() {
    let operator = user();
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    let call = world.call(&operator, "exec", json!({ "workspace_id": "one", "command": "sleep 1000" }));
    let fill = async {
        world.until(async |world| !world.host.requested().is_empty()).await;
        world.host.set_standstill(id, true);
    };
    let (called, ()) = tokio::join!(call, fill);
    assert_eq!(called.unwrap_err().code(), Code::DiskFull);
}

#[tokio::test]
async fn a_machine_that_stood_still_is_resumed_by_the_next_command() {
    let world = World::new().await;
    let id = world.create(&user(), "one").await;
    // Repeated, because a wrong order of resuming and watching only fails some of the time.
    for round in 0..32 {
        world.host.set_standstill(id, true);
        if round % 2 == 0 {
            world.call(&user(), "exec", json!({ "workspace_id": "one", "command": "true" })).await.unwrap();
            continue;
        }
        let spec =
            agentiso_core::wire::ExecSpec { argv: vec![b"/bin/true".to_vec().into()], ..Default::default() };
        let running = world.engine.interact(&user(), "one", spec).await;
        assert!(running.is_ok(), "{:?}", running.err().map(|error| error.failure));
    }
}

#[tokio::test]
async fn a_machine_that_does_not_start_a_command_is_not_waited_for_for_ever() {
    let operator = user();
    let world = World::new().await;
    world.create(&user(), "one").await;
    let hang = world.host.link_faults().hang(LinkCall::Exec);
    let call = world.call(&operator, "exec", json!({ "workspace_id": "one", "command": "true" }));
    let pass = async {
        hang.reached().await;
        skip(std::time::Duration::from_secs(200)).await;
    };
    let (called, ()) = tokio::join!(call, pass);
    assert_eq!(called.unwrap_err().code(), Code::Timeout);
}

#[tokio::test]
async fn jobs_are_read_fed_and_killed() {
    let world = World::new().await;
    world.create(&user(), "one").await;
    let start = json!({ "workspace_id": "one", "command": "echo one; cat", "stdin": true });
    let job = world.ok(&user(), "exec_start", start).await["job_id"].clone();
    let with = |more: Value| {
        let mut arguments = json!({ "workspace_id": "one", "job_id": job });
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let polled = world.ok(&user(), "exec_poll", with(json!({}))).await;
    assert_eq!((&polled["stdout"], &polled["running"]), (&json!("one\n"), &json!(true)));
    world.ok(&user(), "exec_write", with(json!({ "data": "two\n" }))).await;
    let polled = world.ok(&user(), "exec_poll", with(json!({ "stdout_offset": 4 }))).await;
    assert_eq!(polled["stdout"], "two\n");
    let killed = world.ok(&user(), "exec_kill", with(json!({}))).await;
    assert_eq!(killed["status"], "killed");
    let polled = world.ok(&user(), "exec_poll", with(json!({ "wait": "exit" }))).await;
    assert_eq!(polled["running"], false);
    let again = world.ok(&user(), "exec_kill", with(json!({}))).await;
    assert_eq!(again["status"], "ended");
    for action in ["exec_poll", "exec_kill", "exec_write"] {
        let arguments = json!({ "workspace_id": "one", "job_id": 99, "data": "x" });
        let arguments = match action {
            "exec_write" => arguments,
            _ => json!({ "workspace_id": "one", "job_id": 99 }),
        };
        world.refused(&user(), action, arguments, Code::JobNotFound).await;
    }
}

/// A policy with one ruling for every command of an agent.
struct Always(Ruling);

impl CommandPolicy for Always {
    fn rule(&self, principal: Principal, _: WorkspaceId, _: &Exec) -> Ruling {
        if principal == Principal::Operator { Ruling::Allow } else { self.0.clone() }
    }
}

/// A world with a workspace of an agent, whose commands are ruled on so.
async fn ruled(ruling: Ruling, snapshots: u32) -> (World, Caller) {
    let world =
        World::with_policy(Always(ruling), |settings| settings.session_quota.snapshots = snapshots).await;
    world.host.answer("git", Answer::default());
    let session = world.session("agent").await;
    world.create(&session, "one").await;
    (world, session)
}

#[tokio::test]
async fn what_the_policy_denies_runs_in_no_way() {
    for way in WAYS {
        for (ruling, code) in [
            (Ruling::Deny { reason: "too dangerous".to_owned() }, Code::NotPermitted),
            (Ruling::Approval { reason: "too dangerous".to_owned() }, Code::ApprovalRequired),
        ] {
            let (world, session) = ruled(ruling, 10).await;
            let asked = Asked { line: "true", ..Asked::default() };
            let failure = start(&world, &session, way, asked.clone()).await.unwrap_err();
            assert_eq!(failure.code(), code, "{way}: {failure}");
            assert!(failure.message().contains("too dangerous"), "{way}: {failure}");
            assert!(world.host.requested().is_empty(), "{way}: it ran");
            start(&world, &user(), way, asked).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_checkpoint_is_taken_before_the_command_or_it_does_not_run() {
    for way in WAYS {
        let (world, session) = ruled(Ruling::Checkpoint, 1).await;
        let asked = || Asked { line: "echo x > /root/x", ..Asked::default() };
        world.host.faults().fail_once(HostCall::Snapshot, Code::DiskFull);
        let failure = start(&world, &session, way, asked()).await.unwrap_err();
        assert_eq!(failure.code(), Code::DiskFull, "{way}");
        assert!(world.host.requested().is_empty(), "{way}: it ran without a checkpoint");
        start(&world, &session, way, asked()).await.unwrap();
        let checkpoints = json!({ "workspace_id": "one", "kind": "checkpoint" });
        let taken = world.ok(&user(), "snapshot_list", checkpoints).await;
        let name = taken["snapshots"][0]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("checkpoint-"), "{way}: {taken}");
        let ran = world.host.requested().len();
        let failure = start(&world, &session, way, asked()).await.unwrap_err();
        assert_eq!(failure.code(), Code::QuotaExceeded, "{way}: checkpoints count");
        assert_eq!(world.host.requested().len(), ran, "{way}: it ran without a checkpoint");
    }
}

#[tokio::test]
async fn the_policy_is_not_asked_about_the_workspace_of_another() {
    for way in WAYS {
        let (world, _) = ruled(Ruling::Deny { reason: "too dangerous".to_owned() }, 10).await;
        let other = world.session("other").await;
        let failure =
            start(&world, &other, way, Asked { line: "true", ..Asked::default() }).await.unwrap_err();
        assert_eq!(failure.code(), Code::NotOwner, "{way}");
    }
}
