//! Commands: how they start and how they end.

use agentiso_core::ports::link::{ErrorKind, Exec, ExitStatus, LinkError, User, WorkspaceLink};

use super::words::{finish, line, refused, run, start, words};

pub(super) async fn all(link: &dyn WorkspaceLink) {
    exit_codes_and_signals_are_told_apart(link).await;
    outputs_are_told_apart(link).await;
    input_arrives_and_ends(link).await;
    a_command_runs_where_and_as_whom_it_is_asked(link).await;
    what_cannot_run_says_why(link).await;
    a_command_that_takes_too_long_is_ended(link).await;
}

async fn exit_codes_and_signals_are_told_apart(link: &dyn WorkspaceLink) {
    for (text, status) in [
        ("true", ExitStatus::Code(0)),
        ("exit 3", ExitStatus::Code(3)),
        ("false || exit 255", ExitStatus::Code(255)),
        ("kill -9 $$", ExitStatus::Signal(9)),
        ("kill -15 $$", ExitStatus::Signal(15)),
    ] {
        let ran = run(link, line(text)).await.expect("a command");
        assert_eq!(ran.exit.status, status, "{text}");
        assert!(!ran.exit.timed_out && !ran.exit.cancelled, "{text}");
    }
}

async fn outputs_are_told_apart(link: &dyn WorkspaceLink) {
    let ran = run(link, line("echo out; echo err >&2; echo more")).await.expect("a command");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\nmore\n", "err\n"));
    let program = Exec { argv: words(&["echo", "a  b", "$HOME"]), ..Exec::default() };
    assert_eq!(run(link, program).await.expect("a program").stdout, "a  b $HOME\n", "no shell looks at it");
}

async fn input_arrives_and_ends(link: &dyn WorkspaceLink) {
    let mut process = start(link, Exec { stdin: true, ..line("cat") }).await;
    let mut stdin = process.take_stdin().expect("an input");
    assert!(process.take_stdin().is_none(), "there is one input");
    stdin.write(b"hello ").await.expect("input");
    stdin.write(b"there").await.expect("input");
    drop(stdin);
    let ran = finish(process.as_mut()).await.expect("a command");
    assert_eq!((ran.stdout.as_str(), ran.exit.status), ("hello there", ExitStatus::Code(0)));

    let mut process = start(link, line("cat")).await;
    assert!(process.take_stdin().is_none(), "it was not asked for");
    assert_eq!(finish(process.as_mut()).await.expect("a command").stdout, "", "it reads nothing");

    let mut process = start(link, Exec { stdin: true, ..line("true") }).await;
    let mut stdin = process.take_stdin().expect("an input");
    finish(process.as_mut()).await.expect("a command");
    let late = stdin.write(b"too late").await.expect_err("a command that has ended");
    assert!(matches!(late, LinkError::InputEnded), "{late}");
}

async fn a_command_runs_where_and_as_whom_it_is_asked(link: &dyn WorkspaceLink) {
    let home = run(link, line("pwd; id -u")).await.expect("a command");
    assert_eq!(home.stdout, "/root\n0\n");
    let user = Some(User::Id { uid: 1000, gid: 1000 });
    let there = Exec { workdir: Some(b"/tmp".to_vec()), user, ..line("pwd; id -u; printenv SHADE") };
    let there = Exec { env: vec![(b"SHADE".to_vec(), b"dark blue".to_vec())], ..there };
    assert_eq!(run(link, there).await.expect("a command").stdout, "/tmp\n1000\ndark blue\n");
}

async fn what_cannot_run_says_why(link: &dyn WorkspaceLink) {
    let program = |name: &str| Exec { argv: words(&[name]), ..Exec::default() };
    let message = refused(run(link, program("no-such-program")).await, ErrorKind::NotFound);
    assert!(message.starts_with("running no-such-program"), "{message}");
    let message = refused(run(link, program("/etc/passwd")).await, ErrorKind::Denied);
    assert!(message.starts_with("running /etc/passwd"), "{message}");
    refused(run(link, Exec::default()).await, ErrorKind::Invalid);

    let nowhere = Exec { workdir: Some(b"/no/such/place".to_vec()), ..line("true") };
    let message = refused(run(link, nowhere).await, ErrorKind::NotFound);
    assert!(message.starts_with("entering the working directory /no/such/place"), "{message}");
    let nobody = Exec { user: Some(User::Name("no-such-user".to_owned())), ..line("true") };
    let message = refused(run(link, nobody).await, ErrorKind::NotFound);
    assert!(message.starts_with("there is no user no-such-user"), "{message}");
}

async fn a_command_that_takes_too_long_is_ended(link: &dyn WorkspaceLink) {
    let ran = run(link, Exec { timeout_ms: Some(100), ..line("sleep 1000") }).await;
    let ran = ran.expect("a command");
    assert!(ran.exit.timed_out && !ran.exit.cancelled, "{:?}", ran.exit);
}
