//! A guest that does not respond, or stops in the middle. Uses the runtime's paused clock, which advances when idle.

use std::time::Duration;

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Channel, Find, Grep, JobRead, JobWait, Kind, MAX_STREAMS, Response, TreeOptions, WINDOW,
};
use agentiso_testing::guest::ScriptedGuest;
use agentiso_vmm::link::{Guest, LinkError, ProcessEvent, WriteOptions};
use tokio::io::DuplexStream;
use tokio::time::Instant;

use super::{CLEAN, EXIT, command, metadata};

const DAY: Duration = Duration::from_secs(86_400);

/// Both ends of a session, in memory, so that time advances only while waiting.
async fn acquainted() -> (Guest, ScriptedGuest<DuplexStream>) {
    let (host, guest) = tokio::io::duplex(1 << 20);
    let (guest, mut script) = (Guest::open(host, CLEAN), ScriptedGuest::new(guest));
    script.welcome().await.unwrap();
    guest.ready().await.unwrap();
    (guest, script)
}

#[track_caller]
fn assert_silent<T: std::fmt::Debug>(result: Result<T, LinkError>) {
    let error = result.unwrap_err();
    assert!(matches!(error, LinkError::Silent { .. }), "{error:?}");
    assert_eq!(error.code(), Code::Timeout);
}

#[tokio::test(start_paused = true)]
async fn every_call_times_out_if_the_guest_does_not_respond() {
    let (guest, _script) = acquainted().await;
    let calls = async {
        assert_silent(guest.stat("/", true).await);
        assert_silent(guest.list("/").await);
        assert_silent(guest.remove("/x", true).await);
        assert_silent(guest.rename("/x", "/y", true).await);
        assert_silent(guest.mkdir("/x", None, true).await);
        assert_silent(guest.chmod("/x", 0o644).await);
        assert_silent(guest.freeze().await);
        assert_silent(guest.thaw().await);
        assert_silent(guest.hold(true).await);
        assert_silent(guest.release().await);
        assert_silent(guest.grow().await);
        assert_silent(guest.sync().await);
        assert_silent(guest.status().await);
        assert_silent(guest.steady_clock().await);
        assert_silent(guest.set_clock(1).await);
        assert_silent(guest.power_off().await);
        assert_silent(guest.env().await);
        assert_silent(guest.set_env(vec![("A".to_owned(), None)]).await);
        assert_silent(guest.find(Find::default()).await);
        assert_silent(guest.grep(Grep::default()).await);
        assert_silent(guest.start_job(command(&["true"])).await);
        assert_silent(guest.jobs().await);
        assert_silent(guest.write_job(1, b"x", false).await);
        assert_silent(guest.signal_job(1, 9).await);
        assert_silent(guest.forget_job(1).await);
        assert_silent(guest.connect(80).await);
        assert_silent(guest.ping().await);
        assert_silent(guest.exec(command(&["true"])).await.unwrap().next().await);
        assert_silent(guest.read_file("/x", 0, None).await.unwrap().next().await);
        assert_silent(guest.send_tree("/x").await.unwrap().next().await);
        let file = guest.write_file("/x", WriteOptions::default()).await.unwrap();
        assert_silent(file.finish().await);
        let tree = guest.receive_tree("/x", TreeOptions::default()).await.unwrap();
        assert_silent(tree.finish().await);
    };
    tokio::time::timeout(DAY, calls).await.unwrap();
    assert!(!guest.is_closed(), "a slow guest keeps its session");
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_never_sends_a_welcome_times_out() {
    let (host, _guest) = tokio::io::duplex(1 << 20);
    let guest = Guest::open(host, CLEAN);
    assert_silent(tokio::time::timeout(DAY, guest.jobs()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_stops_in_the_middle_of_a_file_times_out() {
    let (guest, mut script) = acquainted().await;
    let mut reader = guest.read_file("/x", 0, None).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    script.respond(stream, &Response::Metadata(metadata(10))).await.unwrap();
    script.data(stream, Channel::Main, b"half").await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap(), "half");
    assert_silent(tokio::time::timeout(DAY, reader.next()).await.unwrap());
    drop(reader);
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_stops_accepting_an_upload_times_out() {
    let (guest, mut script) = acquainted().await;
    let mut writer = guest.write_file("/x", WriteOptions::default()).await.unwrap();
    script.request().await.unwrap();
    let (written, ()) = tokio::join!(
        async { tokio::time::timeout(DAY, writer.write(&vec![1; WINDOW as usize + 1])).await.unwrap() },
        async {
            let mut taken = 0;
            while taken < WINDOW as usize {
                taken += script.expect(Kind::Data).await.unwrap().payload.len();
            }
        }
    );
    assert_silent(written);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_makes_progress_does_not_time_out() {
    let (guest, mut script) = acquainted().await;
    let mut reader = guest.read_file("/x", 0, None).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    script.respond(stream, &Response::Metadata(metadata(100))).await.unwrap();
    let began = Instant::now();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(50)).await;
        script.data(stream, Channel::Main, b"x").await.unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap(), "x");
    }
    script.finish(stream, &Response::Done).await.unwrap();
    assert!(reader.next().await.unwrap().is_none());
    assert!(began.elapsed() > Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn a_started_command_does_not_time_out() {
    let (guest, mut script) = acquainted().await;
    let mut process = guest.exec(command(&["sleep"])).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    script.respond(stream, &Response::Started { pid: 7 }).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Started { pid: 7 }));
    assert!(tokio::time::timeout(DAY, process.next()).await.is_err());
    script.finish(stream, &Response::Exited(EXIT)).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Exited(EXIT)));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_job_times_out_shortly_after_the_requested_time() {
    let (guest, _script) = acquainted().await;
    let wait = Duration::from_secs(3600);
    let read = JobRead { id: 1, wait: JobWait::Exit, wait_ms: 3_600_000, ..JobRead::default() };
    let began = Instant::now();
    assert_silent(tokio::time::timeout(DAY, guest.read_job(read)).await.unwrap());
    assert!(began.elapsed() > wait);
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_a_free_stream_time_out() {
    let (guest, _script) = acquainted().await;
    for _ in 0..MAX_STREAMS {
        // Abandoned immediately. The guest must end each stream, and never does.
        drop(guest.read_file("/x", 0, None).await.unwrap());
    }
    assert_silent(tokio::time::timeout(DAY, guest.stat("/", true)).await.unwrap());
}
