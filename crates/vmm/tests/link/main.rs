//! The host side of the guest link, against a scripted guest.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod commands;
mod connections;
mod credit;
mod environment;
mod files;
mod hostile;
mod jobs;
mod search;
mod silent;
mod starting;
mod waking;

use agentiso_core::{Code, Explain};
use agentiso_proto::{
    Exec, Exit, ExitStatus, FileKind, Inherit, Metadata, Response, Usage, VERSION_MAX, Welcome,
};
use agentiso_testing::guest::ScriptedGuest;
use agentiso_vmm::link::{Guest, LinkError, Process, ProcessEvent, Resync, SessionOptions};
use tokio::net::UnixStream;

type Script = ScriptedGuest<UnixStream>;

const CLEAN: SessionOptions = SessionOptions { resync: Resync::Clean, inherit: Inherit::Keep };
const EXIT: Exit = Exit {
    status: ExitStatus::Code(0),
    timed_out: false,
    cancelled: false,
    usage: Usage { wall_us: 0, user_us: 0, system_us: 0, max_rss_kib: 0 },
};

/// Both ends, before the handshake.
fn strangers(options: SessionOptions) -> (Guest, Script) {
    let (host, guest) = UnixStream::pair().unwrap();
    (Guest::open(host, options), ScriptedGuest::new(guest))
}

/// Both ends, after the handshake.
async fn acquainted() -> (Guest, Script) {
    let (guest, mut script) = strangers(CLEAN);
    script.welcome().await.unwrap();
    assert_eq!(guest.ready().await.unwrap(), VERSION_MAX);
    (guest, script)
}

/// Both ends of a session with an agent that supports no jobs, variables, connections and searches.
async fn acquainted_with_older() -> (Guest, Script) {
    let (guest, mut script) = strangers(CLEAN);
    let hello = script.hello().await.unwrap();
    script.raw(&Welcome { nonce: hello.nonce, version: 1, min: 1, max: 1 }.encode()).await.unwrap();
    assert_eq!(guest.ready().await.unwrap(), 1);
    (guest, script)
}

/// A command that has started.
async fn running(guest: &Guest, script: &mut Script, exec: Exec) -> (Process, u32) {
    let mut process = guest.exec(exec).await.unwrap();
    let (stream, _) = script.request().await.unwrap();
    script.respond(stream, &Response::Started { pid: 7 }).await.unwrap();
    assert_eq!(process.next().await.unwrap(), Some(ProcessEvent::Started { pid: 7 }));
    (process, stream)
}

fn command(words: &[&str]) -> Exec {
    Exec { argv: words.iter().map(|word| word.as_bytes().to_vec()).collect(), ..Exec::default() }
}

fn metadata(size: u64) -> Metadata {
    Metadata {
        kind: FileKind::File,
        size,
        mode: 0o644,
        uid: 0,
        gid: 0,
        links: 1,
        modified_ns: 0,
        target: None,
    }
}

fn assert_violation(error: &LinkError) {
    assert!(matches!(error, LinkError::Violation(_)), "{error:?}");
    assert_eq!(error.code(), Code::ProtocolViolation);
}

async fn assert_ends_in_violation(guest: &Guest) {
    assert_violation(&guest.closed().await);
    assert_violation(&guest.sync().await.unwrap_err());
}

/// Asserts that the guest responds, which means that everything it sent before was processed.
async fn assert_alive(guest: &Guest, script: &mut Script) {
    let (pinged, ponged) = tokio::join!(guest.ping(), script.pong());
    ponged.unwrap();
    pinged.unwrap();
}
