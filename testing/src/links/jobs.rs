//! Jobs.

use agentiso_core::ports::link::{ErrorKind, Exec, ExitStatus, JobRead, JobWait, WorkspaceLink};

use super::words::{line, refused};

/// Long enough for everything that must happen; nothing waits for it in vain.
const LONG_MS: u32 = 60_000;

pub(super) async fn all(link: &dyn WorkspaceLink) {
    a_job_is_read_and_fed_until_it_ends(link).await;
    a_job_can_be_signalled(link).await;
    a_job_that_takes_too_long_is_ended(link).await;
    what_is_no_job_is_not_found(link).await;
}

fn read(id: u32, wait: JobWait) -> JobRead {
    JobRead { id, max: 1000, wait, wait_ms: LONG_MS, ..JobRead::default() }
}

async fn a_job_is_read_and_fed_until_it_ends(link: &dyn WorkspaceLink) {
    let before: Vec<u32> = link.jobs().await.expect("jobs").iter().map(|job| job.id).collect();
    let exec = Exec { stdin: true, ..line("echo one; echo err >&2; cat") };
    let id = link.start_job(exec.clone()).await.expect("a job");
    assert!(before.iter().all(|other| *other < id), "numbers count up");
    let jobs = link.jobs().await.expect("jobs");
    let job = jobs.last().expect("a job");
    assert_eq!((job.id, job.running, job.stdin_open, job.exit), (id, true, true, None));
    assert_eq!(job.argv, exec.argv);

    // The two outputs may arrive one after the other.
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while stdout != b"one\n" || stderr != b"err\n" {
        let from = JobRead {
            stdout_from: stdout.len() as u64,
            stderr_from: stderr.len() as u64,
            ..read(id, JobWait::Output)
        };
        let output = link.read_job(from).await.expect("output");
        assert!(output.info.running, "{output:?}");
        stdout.extend_from_slice(&output.stdout);
        stderr.extend_from_slice(&output.stderr);
    }
    let again = link.read_job(read(id, JobWait::No)).await.expect("output");
    assert_eq!((again.stdout.as_slice(), again.stdout_from), (&b"one\n"[..], 0), "output stays");
    link.write_job(id, b"two\n", false).await.expect("input");
    let from = JobRead { stdout_from: 4, stderr_from: 4, ..read(id, JobWait::Output) };
    let output = link.read_job(from).await.expect("output");
    assert_eq!((output.stdout.as_slice(), output.stdout_from), (&b"two\n"[..], 4));
    link.write_job(id, b"three", true).await.expect("input");
    let ended = link.read_job(JobRead { stdout_from: 8, ..read(id, JobWait::Exit) }).await.expect("an end");
    assert_eq!((ended.stdout.as_slice(), ended.info.running), (&b"three"[..], false));
    assert_eq!(ended.info.exit.expect("an exit").status, ExitStatus::Code(0));
    assert_eq!(ended.info.stdout.end, 13);
    refused(link.write_job(id, b"late", false).await, ErrorKind::Invalid);
    link.signal_job(id, 15).await.expect("a job that has ended is left alone");
}

async fn a_job_can_be_signalled(link: &dyn WorkspaceLink) {
    let id = link.start_job(line("exec sleep 1000")).await.expect("a job");
    link.signal_job(id, 15).await.expect("a signal");
    let ended = link.read_job(read(id, JobWait::Exit)).await.expect("an end");
    assert_eq!(ended.info.exit.expect("an exit").status, ExitStatus::Signal(15));
}

async fn a_job_that_takes_too_long_is_ended(link: &dyn WorkspaceLink) {
    let id = link.start_job(Exec { timeout_ms: Some(100), ..line("sleep 1000") }).await.expect("a job");
    let ended = link.read_job(read(id, JobWait::Exit)).await.expect("an end");
    assert!(ended.info.exit.expect("an exit").timed_out);
}

async fn what_is_no_job_is_not_found(link: &dyn WorkspaceLink) {
    refused(link.read_job(read(9_999, JobWait::No)).await, ErrorKind::NotFound);
    refused(link.write_job(9_999, b"x", false).await, ErrorKind::NotFound);
    refused(link.signal_job(9_999, 15).await, ErrorKind::NotFound);
    let missing = Exec { argv: vec![b"no-such-program".to_vec()], ..Exec::default() };
    let before = link.jobs().await.expect("jobs").len();
    refused(link.start_job(missing).await, ErrorKind::NotFound);
    assert_eq!(link.jobs().await.expect("jobs").len(), before, "what did not start is no job");
}
