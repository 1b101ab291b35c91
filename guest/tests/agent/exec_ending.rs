//! Commands that are cancelled, leave processes behind, or run by the hundred.

use std::{fs, path::Path};

use crate::host::{Host, shell};
use agentiso_proto::{ErrorKind, Exec, ExitStatus, Inherit, Request};

/// Starts a daemon that has left its parent, session and pipes, and writes its process id to a file.
const DAEMON: &str = r#"
    (setsid sh -c 'echo $$ > "$DIR/pid.tmp"; mv "$DIR/pid.tmp" "$DIR/pid"; exec sleep 1000' </dev/null >/dev/null 2>&1 &)
    until test -e "$DIR/pid"; do sleep 0.01; done
    echo ready
"#;

pub fn daemon_then(script: &str, directory: &Path) -> Exec {
    let env = vec![(b"DIR".to_vec(), directory.as_os_str().as_encoded_bytes().to_vec())];
    Exec { env, ..shell(&format!("{DAEMON}{script}")) }
}

pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

pub fn daemon_pid(directory: &Path) -> String {
    fs::read_to_string(directory.join("pid")).unwrap()
}

#[test]
fn a_timeout_kills_the_command_and_a_daemon_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let exec = Exec { timeout_ms: Some(3000), ..daemon_then("exec sleep 1000", directory.path()) };
    let heard = Host::start().exec(exec);
    let exit = heard.exit();
    assert!(exit.timed_out && !exit.cancelled);
    assert_eq!(exit.status, ExitStatus::Signal(9));
    assert_eq!(heard.stdout, b"ready\n");
    assert!(!is_alive(&daemon_pid(directory.path())));
}

#[test]
fn cancelling_kills_the_command_and_a_daemon_it_started() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(daemon_then("exec sleep 1000", directory.path())));
    host.wait_until(stream, |heard| heard.stdout == b"ready\n");
    let pid = daemon_pid(directory.path());
    assert!(is_alive(&pid));
    host.cancel(stream);
    let exit = host.finish(stream).exit();
    assert!(exit.cancelled && !exit.timed_out);
    assert!(!is_alive(&pid));
}

#[test]
fn a_command_that_never_reads_or_writes_can_be_cancelled_while_its_output_is_stalled() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell("yes")));
    host.stall(stream);
    host.wait_until(stream, |heard| heard.stdout.len() == agentiso_proto::WINDOW as usize);
    host.cancel(stream);
    assert!(host.finish(stream).exit().cancelled);
}

#[test]
fn a_background_process_does_not_delay_the_response() {
    let mut host = Host::start();
    let directory = tempfile::tempdir().unwrap();
    let env = vec![(b"DIR".to_vec(), directory.path().as_os_str().as_encoded_bytes().to_vec())];
    // The background process keeps both pipes open.
    let heard = host.exec(Exec { env, ..shell("sleep 1000 & echo $! > \"$DIR/pid\"; echo done; exit 2") });
    heard.assert_code(2);
    assert_eq!(heard.stdout, b"done\n");
    let pid = daemon_pid(directory.path());
    assert!(is_alive(&pid));
    host.exec(shell(&format!("kill {pid}"))).assert_code(0);
}

#[test]
fn a_background_process_that_keeps_writing_does_not_delay_the_response() {
    let mut host = Host::start();
    let heard = host.exec(shell("yes & echo $! >&2; exit 0"));
    heard.assert_code(0);
    let pid = String::from_utf8(heard.stderr).unwrap();
    // SIGPIPE ends it.
    host.exec(shell(&format!("while kill -0 {} 2>/dev/null; do sleep 0.01; done", pid.trim())))
        .assert_code(0);
}

#[test]
fn a_new_session_can_kill_the_commands_of_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(daemon_then("exec sleep 1000", directory.path())));
    host.wait_until(stream, |heard| heard.stdout == b"ready\n");
    host.hello(Inherit::Kill);
    assert!(!is_alive(&daemon_pid(directory.path())));
    assert_eq!(host.status().running, 0);
}

#[test]
fn a_new_session_can_keep_the_commands_of_the_old_one_without_their_output() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    let mut host = Host::start();
    host.exec(shell(&format!("mkfifo {}", fifo.display()))).assert_code(0);
    let script = format!("echo ready; head -c 9000000 /dev/zero; cat {0}; echo > {0}", fifo.display());
    let stream = host.open(&Request::Exec(shell(&script)));
    host.stall(stream);
    host.wait_until(stream, |heard| heard.stdout.starts_with(b"ready\n"));
    host.hello(Inherit::Keep);
    // The command got past output that had no credit, and runs to its end.
    fs::write(&fifo, "go").unwrap();
    assert_eq!(fs::read(&fifo).unwrap(), b"\n");
    host.exec(shell("true")).assert_code(0);
}

#[test]
fn when_the_host_disconnects_the_agent_kills_its_commands_and_exits() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(daemon_then("exec sleep 1000", directory.path())));
    host.wait_until(stream, |heard| heard.stdout == b"ready\n");
    assert!(host.hang_up().success());
    assert!(!is_alive(&daemon_pid(directory.path())));
}

#[test]
fn five_hundred_commands_leak_no_descriptor_thread_or_zombie() {
    let mut host = Host::start();
    host.exec(shell("true")).assert_code(0);
    let before = host.status();
    for number in 0..500 {
        match number % 4 {
            0 => host.exec(shell("echo out; echo err >&2")).assert_code(0),
            1 => host.exec(Exec { tty: Some((80, 24)), ..shell("echo tty") }).assert_code(0),
            2 => assert_eq!(
                host.exec(Exec { argv: vec![b"/missing".to_vec()], ..Exec::default() }).error(),
                ErrorKind::NotFound
            ),
            // An orphan, which only the reaper waits for.
            _ => host.exec(shell("(true &)")).assert_code(0),
        }
    }
    // The last orphan may still be exiting.
    while host.status().zombies > 0 {}
    let after = host.status();
    assert_eq!((after.open_fds, after.threads, after.running), (before.open_fds, before.threads, 0));
}

#[test]
fn many_concurrent_commands_all_succeed() {
    let mut host = Host::start();
    let streams: Vec<u32> = (0..40)
        .map(|number| host.open(&Request::Exec(shell(&format!("head -c 200000 /dev/zero; exit {number}")))))
        .collect();
    for (number, stream) in streams.into_iter().enumerate() {
        let heard = host.finish(stream);
        heard.assert_code(i32::try_from(number).unwrap());
        assert_eq!(heard.stdout.len(), 200_000);
    }
}
