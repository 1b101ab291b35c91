//! Controlling a command that runs.

use agentiso_core::ports::link::{Exec, ExitStatus, JobRead, JobWait, ProcessEvent, WorkspaceLink};

use super::words::{finish, line, start, until_idle};

pub(super) async fn all(link: &dyn WorkspaceLink) {
    a_command_can_be_cancelled(link).await;
    a_command_can_be_signalled(link).await;
    a_command_ends_with_its_caller(link).await;
    a_command_can_become_a_job(link).await;
}

async fn a_command_can_be_cancelled(link: &dyn WorkspaceLink) {
    let mut process = start(link, line("sleep 1000")).await;
    let control = process.control();
    control.cancel();
    let ran = finish(process.as_mut()).await.expect("an end");
    assert!(ran.exit.cancelled && !ran.exit.timed_out, "{:?}", ran.exit);
    control.cancel();
    control.signal(15).await.expect("a command that has ended is left alone");
}

async fn a_command_can_be_signalled(link: &dyn WorkspaceLink) {
    let mut process = start(link, line("exec sleep 1000")).await;
    process.control().signal(15).await.expect("a signal");
    let ran = finish(process.as_mut()).await.expect("an end");
    assert_eq!(ran.exit.status, ExitStatus::Signal(15));
    assert!(!ran.exit.cancelled);
}

async fn a_command_ends_with_its_caller(link: &dyn WorkspaceLink) {
    until_idle(link).await;
    let process = start(link, line("sleep 1000")).await;
    assert_eq!(link.status().await.expect("a status").running, 1);
    drop(process);
    until_idle(link).await;
}

async fn a_command_can_become_a_job(link: &dyn WorkspaceLink) {
    let mut process =
        start(link, Exec { stdin: true, timeout_ms: Some(600_000), ..line("echo before; cat") }).await;
    let first = process.next().await.expect("output");
    assert_eq!(first, Some(ProcessEvent::Stdout("before\n".into())));
    process.control().detach(None).await.expect("a request");
    let job = match process.next().await.expect("an event") {
        Some(ProcessEvent::Detached { job }) => job,
        other => panic!("{other:?}"),
    };
    assert_eq!(process.next().await.expect("an event"), None);
    drop(process);
    let read = JobRead { id: job, max: 1000, wait: JobWait::Output, ..JobRead::default() };
    let output = link.read_job(read).await.expect("a job");
    assert!(output.info.running, "it outlives its caller");
    assert_eq!(output.stdout_from, 7, "what its caller has seen is not repeated");
    link.signal_job(job, 9).await.expect("a signal");
    until_idle(link).await;
}
