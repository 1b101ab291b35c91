//! Jobs, and agents that do not support them.

use agentiso_core::Explain;
use agentiso_proto::{Channel, JOB_INPUT, JobInfo, JobRead, JobStream, JobWait, Kind, Request, Response};
use agentiso_vmm::link::{JobOutput, LinkError};

use super::{EXIT, acquainted, acquainted_with_older, assert_alive, assert_violation, command};

const READ: JobRead =
    JobRead { id: 3, stdout_from: 5, stderr_from: 0, max: 4, wait: JobWait::Exit, wait_ms: 10 };

fn job(id: u32) -> JobInfo {
    JobInfo {
        id,
        argv: vec![b"make".to_vec()],
        started_unix_nanos: 1,
        running: false,
        exit: Some(EXIT),
        stdout: JobStream { first: 0, end: 9 },
        stderr: JobStream::default(),
        stdin_open: false,
    }
}

#[tokio::test]
async fn a_job_is_started_listed_read_signalled_and_forgotten() {
    let (guest, mut script) = acquainted().await;
    let asking = async {
        assert_eq!(guest.start_job(command(&["make"])).await.unwrap(), 3);
        assert_eq!(guest.jobs().await.unwrap(), [job(3), job(4)]);
        let output = guest.read_job(READ).await.unwrap();
        let expected = JobOutput {
            info: job(3),
            stdout_from: 5,
            stdout: b"out!".to_vec(),
            stderr_from: 0,
            stderr: b"err".to_vec(),
        };
        assert_eq!(output, expected);
        guest.signal_job(3, 15).await.unwrap();
        guest.forget_job(3).await.unwrap();
    };
    let answering = async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::StartJob(command(&["make"])));
        script.finish(stream, &Response::JobStarted { id: 3 }).await.unwrap();
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::ListJobs);
        script.respond(stream, &Response::Jobs(vec![job(3)])).await.unwrap();
        script.respond(stream, &Response::Jobs(vec![job(4)])).await.unwrap();
        script.finish(stream, &Response::Done).await.unwrap();
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::ReadJob(READ));
        script.data(stream, Channel::Stdout, b"out").await.unwrap();
        script.data(stream, Channel::Stderr, b"err").await.unwrap();
        script.data(stream, Channel::Stdout, b"!").await.unwrap();
        let output = Response::JobOutput { info: job(3), stdout_from: 5, stderr_from: 0 };
        script.finish(stream, &output).await.unwrap();
        for expected in [Request::SignalJob { id: 3, signal: 15 }, Request::ForgetJob { id: 3 }] {
            let (stream, request) = script.request().await.unwrap();
            assert_eq!(request, expected);
            script.finish(stream, &Response::Done).await.unwrap();
        }
    };
    tokio::join!(asking, answering);
}

#[tokio::test]
async fn long_input_is_sent_in_chunks_and_only_the_last_closes_it() {
    let (guest, mut script) = acquainted().await;
    let input = vec![7; JOB_INPUT + 1];
    let (written, ()) = tokio::join!(guest.write_job(3, &input, true), async {
        for (len, last) in [(JOB_INPUT, false), (1, true)] {
            let (stream, request) = script.request().await.unwrap();
            assert_eq!(request, Request::WriteJob { id: 3, bytes: vec![7; len], close: last });
            script.finish(stream, &Response::Written { bytes: len as u64 }).await.unwrap();
        }
    });
    written.unwrap();
    let (closed, ()) = tokio::join!(guest.write_job(3, &[], true), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::WriteJob { id: 3, bytes: Vec::new(), close: true });
        script.finish(stream, &Response::Written { bytes: 0 }).await.unwrap();
    });
    closed.unwrap();
}

#[tokio::test]
async fn more_output_than_requested_is_a_violation() {
    let (guest, mut script) = acquainted().await;
    let (read, ()) = tokio::join!(guest.read_job(READ), async {
        let (stream, _) = script.request().await.unwrap();
        script.data(stream, Channel::Stderr, b"12345").await.unwrap();
    });
    assert_violation(&read.unwrap_err());
}

#[tokio::test]
async fn a_job_with_countless_empty_arguments_is_rejected() {
    let (guest, mut script) = acquainted().await;
    let job = JobInfo { argv: vec![Vec::new(); 200_000], ..job(3) };
    let (read, ()) = tokio::join!(guest.read_job(READ), async {
        let (stream, _) = script.request().await.unwrap();
        let output = Response::JobOutput { info: job, stdout_from: 0, stderr_from: 0 };
        script.finish(stream, &output).await.unwrap();
    });
    assert!(matches!(read.unwrap_err(), LinkError::AnswerTooLarge { .. }));
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn a_wait_whose_caller_is_gone_is_cancelled() {
    let (guest, mut script) = acquainted().await;
    let reading = tokio::spawn({
        let guest = guest.clone();
        async move { guest.read_job(READ).await }
    });
    let (stream, _) = script.request().await.unwrap();
    reading.abort();
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
}

#[tokio::test]
async fn no_job_request_is_sent_to_an_older_agent_and_the_error_has_a_remedy() {
    let (guest, mut script) = acquainted_with_older().await;
    let errors = [
        guest.start_job(command(&["make"])).await.unwrap_err(),
        guest.jobs().await.unwrap_err(),
        guest.read_job(READ).await.unwrap_err(),
        guest.write_job(3, b"", true).await.unwrap_err(),
        guest.signal_job(3, 9).await.unwrap_err(),
        guest.forget_job(3).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, LinkError::OldAgent { version: 1, needed: 2 }), "{error:?}");
        assert!(error.to_string().contains("older agentiso"));
        assert!(error.remedy().unwrap().contains("stop the machine and start it again"));
    }
    // The first request it receives is one that it supports.
    let (synced, ()) = tokio::join!(guest.sync(), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Sync);
        script.finish(stream, &Response::Done).await.unwrap();
    });
    synced.unwrap();
}
