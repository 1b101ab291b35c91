//! Running commands.

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Channel, Control, ErrorKind, Exec, Exit, ExitStatus, GuestError, Kind, Request, Response, from_bytes,
};
use agentiso_vmm::link::{LinkError, ProcessEvent};

use super::{EXIT, acquainted, assert_alive, assert_ends_in_violation, command, running};

#[tokio::test]
async fn a_command_reports_its_start_its_output_in_order_and_its_exit() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["ls"])).await;
    assert!(process.take_stdin().is_none());
    script.data(stream, Channel::Stdout, b"out").await.unwrap();
    script.data(stream, Channel::Stderr, b"err").await.unwrap();
    script.send(Kind::Eof, Channel::Stdout, false, stream, &[]).await.unwrap();
    let exit = Exit { status: ExitStatus::Signal(9), timed_out: true, ..EXIT };
    script.finish(stream, &Response::Exited(exit)).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Stdout("out".into())));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Stderr("err".into())));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(exit)));
    assert_eq!(process.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_command_that_cannot_start_fails_with_the_guests_reason_and_the_session_continues() {
    let (guest, mut script) = acquainted().await;
    let mut process = guest.exec(command(&["nothing"])).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    let reason = GuestError { kind: ErrorKind::NotFound, errno: Some(2), message: "run nothing".to_owned() };
    script.finish(stream, &Response::Error(reason)).await.unwrap();
    let error = process.next().await.unwrap_err();
    assert_eq!(error.to_string(), "the guest could not do this: run nothing: No such file or directory");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(process.next().await.unwrap(), None);
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn a_full_disk_in_the_guest_has_its_own_error_code() {
    let full = GuestError { kind: ErrorKind::NoSpace, errno: Some(28), message: "write".to_owned() };
    let error = LinkError::Guest(full);
    assert_eq!(error.code(), Code::DiskFull);
    assert!(error.remedy().is_some());
}

#[tokio::test]
async fn signals_resizes_and_cancels_reach_the_guest_in_order_and_a_cancel_only_once() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["top"])).await;
    let control = process.control();
    control.resize(100, 30).await.unwrap();
    control.signal(2).await.unwrap();
    control.cancel();
    control.cancel();
    control.signal(3).await.unwrap();
    for expected in [Control::Resize { columns: 100, rows: 30 }, Control::Signal(2)] {
        let frame = script.expect(Kind::Control).await.unwrap();
        assert_eq!((frame.stream, from_bytes(&frame.payload)), (stream, Ok(expected)));
    }
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
    script.expect(Kind::Control).await.unwrap();
    let exit = Exit { cancelled: true, ..EXIT };
    script.finish(stream, &Response::Exited(exit)).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(exit)));
}

#[tokio::test]
async fn dropping_a_running_command_cancels_it_and_ignores_its_output() {
    let (guest, mut script) = acquainted().await;
    let (process, stream) = running(&guest, &mut script, command(&["yes"])).await;
    drop(process);
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
    script.data(stream, Channel::Stdout, b"y\ny\n").await.unwrap();
    script.credit(stream, 1).await.unwrap();
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    assert_alive(&guest, &mut script).await;
    // The final response ends even an abandoned stream.
    script.data(stream, Channel::Stdout, b"y\n").await.unwrap();
    assert_ends_in_violation(&guest).await;
}

#[tokio::test]
async fn dropping_a_command_that_ended_sends_nothing() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["true"])).await;
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    process.next().await.unwrap();
    drop(process);
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_is_cancelled() {
    let (guest, mut script) = acquainted().await;
    let call = tokio::spawn({
        let guest = guest.clone();
        async move { guest.freeze().await }
    });
    let (stream, request) = script.request().await.unwrap();
    assert_eq!(request, Request::Freeze);
    call.abort();
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
}

#[tokio::test]
async fn a_cancel_is_sent_even_if_the_session_is_dropped_immediately() {
    let (guest, mut script) = acquainted().await;
    let (process, stream) = running(&guest, &mut script, command(&["yes"])).await;
    drop(guest);
    drop(process);
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
    assert_eq!(script.event().await.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_detached_command_continues_as_a_job_and_is_not_cancelled() {
    let (guest, mut script) = acquainted().await;
    let (mut process, stream) = running(&guest, &mut script, command(&["make"])).await;
    process.control().detach(Some(300)).await.unwrap();
    let frame = script.expect(Kind::Control).await.unwrap();
    assert_eq!(from_bytes::<Control>(&frame.payload).unwrap(), Control::Detach { timeout_ms: Some(300) });
    script.data(stream, Channel::Stdout, b"out").await.unwrap();
    script.finish(stream, &Response::Detached { id: 7 }).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Stdout("out".into())));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Detached { job: 7 }));
    assert_eq!(process.next().await.unwrap(), None);
    drop(process);
    assert_alive(&guest, &mut script).await;
}

#[tokio::test]
async fn the_amount_of_input_read_is_reported_on_request() {
    let (guest, mut script) = acquainted().await;
    let exec = Exec { stdin: true, ..command(&["head", "-1"]) };
    let (mut process, stream) = running(&guest, &mut script, exec).await;
    process.control().report_input().await.unwrap();
    let frame = script.expect(Kind::Control).await.unwrap();
    assert_eq!(from_bytes::<Control>(&frame.payload).unwrap(), Control::ReportInput);
    script.respond(stream, &Response::InputRead { bytes: 300 }).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::InputRead(300)));
    script.respond(stream, &Response::InputRead { bytes: 310 }).await.unwrap();
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::InputRead(310)));
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(EXIT)));
}
