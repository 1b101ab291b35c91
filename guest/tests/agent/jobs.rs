//! Jobs: they outlive the session, and their output is kept.

use agentiso_proto::{
    ErrorKind, Exec, ExitStatus, Inherit, JOB_INPUT, JobInfo, JobRead, JobWait, Request, Response, Status,
};

use crate::{
    exec_ending::{daemon_pid, daemon_then, is_alive},
    host::{Heard, Host, shell},
};

const RING: u64 = 1024 * 1024;
/// Longer than any test may take.
const LONG: u32 = 600_000;

/// Part of a job's output.
struct Output {
    info: JobInfo,
    stdout_from: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

fn start(host: &mut Host, exec: Exec) -> u32 {
    match host.call(&Request::StartJob(exec)).last {
        Some(Response::JobStarted { id }) => id,
        other => panic!("not started: {other:?}"),
    }
}

fn output(heard: Heard) -> Output {
    match heard.last {
        Some(Response::JobOutput { info, stdout_from, .. }) => {
            Output { info, stdout_from, stdout: heard.stdout, stderr: heard.stderr }
        }
        other => panic!("no output: {other:?}"),
    }
}

fn read(host: &mut Host, read: JobRead) -> Output {
    output(host.call(&Request::ReadJob(read)))
}

fn everything(id: u32, wait: JobWait) -> JobRead {
    JobRead { id, max: u32::MAX, wait, wait_ms: LONG, ..JobRead::default() }
}

fn jobs(host: &mut Host) -> Vec<JobInfo> {
    let heard = host.call(&Request::ListJobs);
    heard.assert_done();
    let batches = heard.responses.into_iter().map(|response| match response {
        Response::Jobs(jobs) => jobs,
        other => panic!("no jobs: {other:?}"),
    });
    batches.flatten().collect()
}

fn write(host: &mut Host, id: u32, bytes: &[u8], close: bool) -> Heard {
    host.call(&Request::WriteJob { id, bytes: bytes.to_vec(), close })
}

#[test]
fn the_output_and_exit_of_a_job_can_be_read_after_it_ended() {
    let mut host = Host::start();
    let id = start(&mut host, shell("echo out; echo err >&2; exit 3"));
    let output = read(&mut host, everything(id, JobWait::Exit));
    assert_eq!((id, output.stdout.as_slice(), output.stderr.as_slice()), (1, &b"out\n"[..], &b"err\n"[..]));
    let info = output.info;
    assert_eq!(info.exit.map(|exit| exit.status), Some(ExitStatus::Code(3)));
    assert!(!info.running && !info.stdin_open && info.started_unix_nanos > 0);
    assert_eq!(info.argv, shell("echo out; echo err >&2; exit 3").argv);
    assert_eq!((info.stdout.first, info.stdout.end, info.stderr.end), (0, 4, 4));
    assert_eq!(jobs(&mut host), [info]);
    assert_eq!(start(&mut host, shell("true")), 2);
}

#[test]
fn a_job_that_cannot_start_leaves_nothing_behind() {
    let mut host = Host::start();
    let missing = Exec { argv: vec![b"/missing".to_vec()], ..Exec::default() };
    assert_eq!(host.call(&Request::StartJob(missing)).error(), ErrorKind::NotFound);
    let terminal = Exec { tty: Some((80, 24)), ..shell("true") };
    assert_eq!(host.call(&Request::StartJob(terminal)).error(), ErrorKind::Invalid);
    assert_eq!(host.call(&Request::StartJob(Exec::default())).error(), ErrorKind::Invalid);
    assert_eq!(jobs(&mut host), []);
    assert_eq!(host.status().running, 0);
}

#[test]
fn only_the_newest_output_is_kept_and_a_read_reports_its_offset() {
    let mut host = Host::start();
    let id = start(&mut host, shell("head -c 3000000 /dev/zero; printf end; echo err >&2"));
    let tail = read(&mut host, everything(id, JobWait::Exit));
    let end = 3_000_003;
    assert_eq!((tail.info.stdout.first, tail.info.stdout.end), (end - RING, end));
    assert_eq!((tail.stdout_from, tail.stdout.len()), (end - RING, 256 * 1024));
    let last = read(&mut host, JobRead { stdout_from: end - 5, ..everything(id, JobWait::No) });
    assert_eq!((last.stdout_from, last.stdout.as_slice()), (end - 5, &b"\0\0end"[..]));
    let two = JobRead { stdout_from: end - 5, stderr_from: 1, max: 2, ..everything(id, JobWait::No) };
    let two = read(&mut host, two);
    assert_eq!((two.stdout.as_slice(), two.stderr.as_slice()), (&b"\0\0"[..], &b"rr"[..]));
    let beyond = read(&mut host, JobRead { stdout_from: u64::MAX, ..everything(id, JobWait::Output) });
    assert_eq!((beyond.stdout_from, beyond.stdout.len()), (end, 0));
}

#[test]
fn all_of_a_long_output_is_read_in_pieces_without_a_gap() {
    let mut host = Host::start();
    let id = start(&mut host, shell("seq 1 100000"));
    read(&mut host, everything(id, JobWait::Exit));
    let mut all = Vec::new();
    loop {
        let piece = read(&mut host, JobRead { stdout_from: all.len() as u64, ..everything(id, JobWait::No) });
        assert_eq!(piece.stdout_from, all.len() as u64);
        if piece.stdout.is_empty() {
            break;
        }
        all.extend(piece.stdout);
    }
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(all == expected.as_bytes());
}

#[test]
fn a_read_waits_for_output_or_exit_up_to_its_timeout() {
    let mut host = Host::start();
    let id = start(&mut host, Exec { stdin: true, ..shell("while read line; do echo \"got $line\"; done") });
    let waiting = host.open(&Request::ReadJob(everything(id, JobWait::Output)));
    let exit = host.open(&Request::ReadJob(everything(id, JobWait::Exit)));
    host.ping(b"nothing yet");
    assert_eq!((&host.heard(waiting).last, &host.heard(exit).last), (&None, &None));
    assert_eq!(write(&mut host, id, b"one\n", false).last, Some(Response::Written { bytes: 4 }));
    let first = output(host.finish(waiting));
    assert_eq!(first.stdout, b"got one\n");
    assert!(first.info.running && first.info.stdin_open && first.info.exit.is_none());
    let nothing_new = JobRead { stdout_from: 8, wait_ms: 1, ..everything(id, JobWait::Output) };
    assert_eq!(read(&mut host, nothing_new).stdout, b"");
    assert_eq!(read(&mut host, JobRead { wait_ms: 1, ..everything(id, JobWait::Exit) }).stdout, b"got one\n");
    write(&mut host, id, b"two\n", true);
    let last = output(host.finish(exit));
    assert_eq!(last.stdout, b"got one\ngot two\n");
    assert_eq!(last.info.exit.unwrap().status, ExitStatus::Code(0));
    assert_eq!(write(&mut host, id, b"three\n", false).error(), ErrorKind::Invalid);
}

#[test]
fn a_cancelled_wait_does_not_affect_the_job() {
    let mut host = Host::start();
    let id = start(&mut host, Exec { stdin: true, ..shell("cat") });
    for wait in [JobWait::Output, JobWait::Exit] {
        let waiting = host.open(&Request::ReadJob(everything(id, wait)));
        host.ping(b"waiting");
        host.cancel(waiting);
        assert_eq!(host.finish(waiting).error(), ErrorKind::Cancelled);
    }
    write(&mut host, id, b"still there", true);
    assert_eq!(read(&mut host, everything(id, JobWait::Exit)).stdout, b"still there");
}

#[test]
fn input_waits_for_a_slow_reader_and_is_rejected_once_it_is_closed() {
    let mut host = Host::start();
    let id = start(&mut host, Exec { stdin: true, ..shell("read line; echo read; exec sleep 1000") });
    let piece = vec![b'\n'; JOB_INPUT];
    // The pipe, the supervisor and the agent each buffer one chunk; the next one waits.
    for _ in 0..3 {
        assert_eq!(
            write(&mut host, id, &piece, false).last,
            Some(Response::Written { bytes: JOB_INPUT as u64 })
        );
    }
    let waiting = host.open(&Request::WriteJob { id, bytes: piece.clone(), close: false });
    host.ping(b"waiting");
    host.cancel(waiting);
    assert_eq!(host.finish(waiting).error(), ErrorKind::Cancelled);
    let too_long = vec![0; JOB_INPUT + 1];
    assert_eq!(write(&mut host, id, &too_long, false).error(), ErrorKind::Invalid);
    let waiting = host.open(&Request::WriteJob { id, bytes: piece, close: false });
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();
    assert_eq!(host.finish(waiting).error(), ErrorKind::Invalid);
    let deaf = start(&mut host, shell("exec sleep 1000"));
    assert_eq!(write(&mut host, deaf, b"x", false).error(), ErrorKind::Invalid);
}

#[test]
fn killing_a_job_kills_its_daemon_and_other_signals_are_delivered() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let id = start(&mut host, daemon_then("exec sleep 1000", directory.path()));
    assert_eq!(read(&mut host, everything(id, JobWait::Output)).stdout, b"ready\n");
    let pid = daemon_pid(directory.path());
    assert!(is_alive(&pid));
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();
    let exit = read(&mut host, everything(id, JobWait::Exit)).info.exit.unwrap();
    assert!(exit.cancelled && !exit.timed_out && exit.status == ExitStatus::Signal(9));
    assert!(!is_alive(&pid));
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();

    let id =
        start(&mut host, shell("trap 'echo caught; exit 7' TERM; echo ready; while :; do sleep 0.01; done"));
    assert_eq!(read(&mut host, everything(id, JobWait::Output)).stdout, b"ready\n");
    host.call(&Request::SignalJob { id, signal: 15 }).assert_done();
    let ended = read(&mut host, everything(id, JobWait::Exit));
    assert_eq!(
        (ended.stdout.as_slice(), ended.info.exit.unwrap().status),
        (&b"ready\ncaught\n"[..], ExitStatus::Code(7))
    );
    for signal in [0, -1, 4096] {
        assert_eq!(host.call(&Request::SignalJob { id, signal }).error(), ErrorKind::Invalid);
    }
}

#[test]
fn a_job_is_killed_at_its_timeout() {
    let mut host = Host::start();
    let id = start(&mut host, Exec { timeout_ms: Some(50), ..shell("exec sleep 1000") });
    let exit = read(&mut host, everything(id, JobWait::Exit)).info.exit.unwrap();
    assert!(exit.timed_out && exit.status == ExitStatus::Signal(9));
}

#[test]
fn a_job_outlives_its_session_and_the_next_session_reads_its_output() {
    let mut host = Host::start();
    let id = start(&mut host, Exec { stdin: true, ..shell("echo before; read go; echo after $go") });
    assert_eq!(read(&mut host, everything(id, JobWait::Output)).stdout, b"before\n");
    host.open(&Request::ReadJob(everything(id, JobWait::Exit)));
    for inherit in [Inherit::Keep, Inherit::Held] {
        host.hello(inherit);
        let info = &jobs(&mut host)[0];
        assert!(info.id == id && info.running && info.stdin_open);
    }
    write(&mut host, id, b"on\n", true);
    let rest = read(&mut host, JobRead { stdout_from: 7, ..everything(id, JobWait::Exit) });
    assert_eq!((rest.stdout_from, rest.stdout.as_slice()), (7, &b"after on\n"[..]));
    assert_eq!(rest.info.exit.unwrap().status, ExitStatus::Code(0));
}

#[test]
fn a_session_that_kills_everything_kills_jobs_but_keeps_them_listed() {
    let mut host = Host::start();
    let id = start(&mut host, shell("echo ready; exec sleep 1000"));
    read(&mut host, everything(id, JobWait::Output));
    host.hello(Inherit::Kill);
    assert_eq!(host.status().running, 0);
    let ended = read(&mut host, everything(id, JobWait::No));
    assert_eq!(ended.stdout, b"ready\n");
    assert!(ended.info.exit.unwrap().cancelled);
}

#[test]
fn an_unknown_job_is_not_found_and_a_running_job_cannot_be_forgotten() {
    let mut host = Host::start();
    let id = start(&mut host, shell("exec sleep 1000"));
    let requests = |id| {
        [
            Request::ReadJob(everything(id, JobWait::Exit)),
            Request::WriteJob { id, bytes: Vec::new(), close: true },
            Request::SignalJob { id, signal: 15 },
            Request::ForgetJob { id },
        ]
    };
    for request in requests(4711) {
        let heard = host.call(&request);
        assert_eq!(heard.error(), ErrorKind::NotFound);
        assert!(format!("{:?}", heard.last).contains("4711"));
    }
    assert_eq!(host.call(&Request::ForgetJob { id }).error(), ErrorKind::Invalid);
    host.call(&Request::SignalJob { id, signal: 9 }).assert_done();
    read(&mut host, everything(id, JobWait::Exit));
    host.call(&Request::ForgetJob { id }).assert_done();
    for request in requests(id) {
        assert_eq!(host.call(&request).error(), ErrorKind::NotFound);
    }
}

#[test]
fn twenty_concurrent_jobs_keep_their_output_separate() {
    let mut host = Host::start();
    let ids: Vec<u32> = (0..20)
        .map(|number| {
            start(&mut host, shell(&format!("head -c 200000 /dev/zero; echo {number}; exit {number}")))
        })
        .collect();
    for (number, id) in ids.iter().enumerate() {
        let end = read(&mut host, JobRead { stdout_from: 200_000, ..everything(*id, JobWait::Exit) });
        assert_eq!(end.stdout, format!("{number}\n").as_bytes());
        assert_eq!(end.info.exit.unwrap().status, ExitStatus::Code(i32::try_from(number).unwrap()));
    }
    assert_eq!(jobs(&mut host).iter().map(|info| info.id).collect::<Vec<_>>(), ids);
}

#[test]
fn the_oldest_ended_jobs_make_room_for_new_ones_and_running_jobs_never_do() {
    let mut host = Host::start();
    let keeper = start(&mut host, shell("exec sleep 1000"));
    let words: Vec<Vec<u8>> = [&b"true"[..], &[b'x'; 100_000]].map(<[u8]>::to_vec).to_vec();
    for _ in 0..300 {
        let id = start(&mut host, Exec { argv: words.clone(), ..Exec::default() });
        read(&mut host, JobRead { max: 0, ..everything(id, JobWait::Exit) });
    }
    let remembered = jobs(&mut host);
    assert_eq!(remembered.len(), 256);
    assert_eq!((remembered[0].id, remembered[1].id, remembered[255].id), (keeper, 47, 301));
    assert!(remembered[0].running);
    assert!(remembered[1].argv[1].len() < 20_000, "a long command line is cut");
}

#[test]
fn the_output_of_all_jobs_is_bounded_and_the_oldest_is_dropped_first() {
    let mut host = Host::start();
    let verbose = "head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >&2";
    let ids: Vec<u32> = (0..40).map(|_| start(&mut host, shell(verbose))).collect();
    for id in &ids[8..] {
        read(&mut host, JobRead { max: 0, ..everything(*id, JobWait::Exit) });
    }
    // Jobs that ran concurrently may have had smaller shares; the total stays within the limit.
    let kept = jobs(&mut host);
    let bytes: u64 =
        kept.iter().flat_map(|info| [info.stdout, info.stderr]).map(|kept| kept.end - kept.first).sum();
    assert!(bytes <= 64 * 1024 * 1024, "{bytes}");
    assert!(kept.iter().any(|info| info.id == ids[39]));
}

#[test]
fn jobs_leak_no_descriptor_thread_or_zombie() {
    let mut host = Host::start();
    let run = |host: &mut Host| {
        let id = start(host, Exec { stdin: true, ..shell("echo out; (true &)") });
        read(host, everything(id, JobWait::Exit));
    };
    // Enough to fill the set of idle workers.
    for _ in 0..20 {
        run(&mut host);
    }
    let before = host.status();
    for _ in 0..100 {
        run(&mut host);
    }
    // Both before and after, an orphan may still be exiting, a worker becoming idle, or a descriptor being closed.
    let is_calm =
        |status: &Status| status.zombies == 0 && status.running == 0 && status.open_fds <= before.open_fds;
    let after = (0..10_000).map(|_| host.status()).find(is_calm).expect("something was left behind");
    assert!(after.threads <= before.threads.max(8), "{} threads", after.threads);
}

#[test]
fn when_the_host_disconnects_the_agent_kills_its_jobs_and_exits() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::start();
    let id = start(&mut host, daemon_then("exec sleep 1000", directory.path()));
    read(&mut host, everything(id, JobWait::Output));
    assert!(host.hang_up().success());
    assert!(!is_alive(&daemon_pid(directory.path())));
}
