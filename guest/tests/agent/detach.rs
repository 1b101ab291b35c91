//! Running commands that become jobs.

use agentiso_proto::{
    Control, Exec, ExitStatus, Inherit, JobInfo, JobRead, JobWait, Kind, Request, Response,
};

use crate::host::{Heard, Host, shell};

/// Longer than any test may take.
const LONG: u32 = 600_000;
const NO_LIMIT: Control = Control::Detach { timeout_ms: None };

fn detached(host: &mut Host, stream: u32) -> (u32, Heard) {
    let heard = host.finish(stream);
    match heard.last {
        Some(Response::Detached { id }) => (id, heard),
        other => panic!("not detached: {other:?}"),
    }
}

/// The exit and complete output of a job.
fn ending(host: &mut Host, id: u32) -> (JobInfo, Heard) {
    let read = JobRead { id, max: u32::MAX, wait: JobWait::Exit, wait_ms: LONG, ..JobRead::default() };
    let heard = host.call(&Request::ReadJob(read));
    match &heard.last {
        Some(Response::JobOutput { info, .. }) => (info.clone(), heard),
        other => panic!("no output: {other:?}"),
    }
}

#[test]
fn a_detached_command_loses_no_output_and_reads_its_input() {
    let mut host = Host::start();
    let fifo = tempfile::tempdir().unwrap();
    let gate = fifo.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let script =
        format!("echo begin; echo oops >&2; cat; read word < {}; echo $word; exit 3", gate.display());
    let stream = host.open(&Request::Exec(Exec { stdin: true, ..shell(&script) }));
    host.send(stream, b"input\n");
    host.send_eof(stream);
    host.wait_until(stream, |heard| heard.stdout == b"begin\ninput\n" && heard.stderr == b"oops\n");
    host.control(stream, NO_LIMIT);
    let (id, heard) = detached(&mut host, stream);
    assert_eq!((heard.stdout.as_slice(), heard.stderr.as_slice()), (&b"begin\ninput\n"[..], &b"oops\n"[..]));
    std::fs::write(&gate, "open\n").unwrap();
    let (info, rest) = ending(&mut host, id);
    assert_eq!(rest.stdout, b"open\n");
    assert_eq!((info.stdout.first, info.stdout.end, info.stderr.first, info.stderr.end), (12, 17, 5, 5));
    assert_eq!(info.exit.unwrap().status, ExitStatus::Code(3));
    assert_eq!(info.argv, shell(&script).argv);
    // The agent reports the end of a job before its supervisor is gone.
    while host.status().running > 0 {}
}

#[test]
fn a_detached_command_outlives_its_session_and_frees_its_stream_id() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell("echo begun; exec sleep 600")));
    host.wait_until(stream, |heard| heard.stdout == b"begun\n");
    host.control(stream, NO_LIMIT);
    let (id, _) = detached(&mut host, stream);
    // Reuse the id for another command, which the end of the first must not affect.
    host.open_on(stream, &Request::Exec(shell("echo other; read forever; echo never")));
    host.wait_until(stream, |heard| heard.stdout == b"other\n" || heard.last.is_some());
    host.hello(Inherit::Keep);
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();
    let (info, _) = ending(&mut host, id);
    assert_eq!(info.exit.unwrap().status, ExitStatus::Signal(9));
}

#[test]
fn a_new_timeout_counts_from_the_start_and_replaces_the_old_one() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(Exec { timeout_ms: Some(600_000), ..shell("exec sleep 600") }));
    host.wait_until(stream, |heard| !heard.responses.is_empty());
    host.control(stream, Control::Detach { timeout_ms: Some(1) });
    let (id, _) = detached(&mut host, stream);
    assert!(ending(&mut host, id).0.exit.unwrap().timed_out);

    let stream = host.open(&Request::Exec(Exec { timeout_ms: Some(3_000), ..shell("sleep 4; echo late") }));
    host.wait_until(stream, |heard| !heard.responses.is_empty());
    host.control(stream, NO_LIMIT);
    let (id, _) = detached(&mut host, stream);
    let (info, heard) = ending(&mut host, id);
    assert_eq!((info.exit.unwrap().timed_out, heard.stdout.as_slice()), (false, &b"late\n"[..]));
}

#[test]
fn a_command_with_a_terminal_cannot_be_detached() {
    let mut host = Host::start();
    let exec = Exec { tty: Some((80, 24)), stdin: true, ..shell("echo begun; read word; echo $word") };
    let stream = host.open(&Request::Exec(exec));
    host.wait_until(stream, |heard| heard.stdout.ends_with(b"begun\r\n"));
    host.control(stream, NO_LIMIT);
    host.send(stream, b"on\n");
    host.finish(stream).assert_code(0);
    assert_eq!(host.call(&Request::ListJobs).responses, []);
}

#[test]
fn frames_for_a_detached_stream_are_ignored() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell("echo begun; exec sleep 600")));
    host.wait_until(stream, |heard| heard.stdout == b"begun\n");
    host.control(stream, NO_LIMIT);
    host.control(stream, NO_LIMIT);
    let (id, _) = detached(&mut host, stream);
    host.frame(Kind::Cancel, agentiso_proto::Channel::Main, stream, &[]);
    host.ping(b"still here");
    let jobs = host.call(&Request::ListJobs).responses;
    assert!(
        matches!(jobs.as_slice(), [Response::Jobs(jobs)] if jobs.len() == 1 && jobs[0].running),
        "{jobs:?}"
    );
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();
}
