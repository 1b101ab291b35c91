//! The server of a session.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::{Code, Failure};
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;

use super::Resident;
use super::record::SessionInfo;
use super::wire::{Kind, Request, receive_request, send};
use crate::approvals::Asker;
use crate::run::interrupt::Interrupts;
use crate::run::{Boundary, Call, Live, OutputStream, Places, sandbox};

/// What a server says when it is ready.
pub(super) const READY: &str = "ready";

/// Serves a session until it is ended, nobody calls for `idle`, or a signal arrives. Called by a process of its own,
/// whose standard output is read by the one that started it.
pub fn serve_session(
    boundary: &Boundary<'_>,
    id: &str,
    vault: &str,
    readonly: bool,
    idle: Duration,
) -> Result<(), Failure> {
    let info = boundary.vaults.info(vault)?;
    let listener = listen(boundary.places, id)?;
    let interrupts = Interrupts::listen().map_err(|error| {
        Failure::new(Code::of_io(&error), format!("could not listen for signals: {error}"))
    })?;
    let mut resident = Resident::open(boundary, &info.id.to_string(), id, readonly)?;
    let session = SessionInfo {
        id: id.to_owned(),
        vault: info.id.to_string(),
        vault_name: info.name,
        readonly,
        mountpoint: sandbox::WORKSPACE.to_owned(),
        pid: std::process::id(),
        created_at: Timestamp::now().to_string(),
    };
    let served = session.write(boundary.places).and_then(|()| {
        announce();
        answer_all(boundary, &session, &listener, &interrupts, &mut resident, idle)
    });
    SessionInfo::forget(boundary.places, id);
    let closed = resident.close(boundary.vaults);
    // Who ended it may rely on the vault not being in use any more. A client that has gone needs no answer.
    if let (Ok(Some(client)), Ok(())) = (&served, &closed) {
        let _ = send(client, Kind::Answer, b"null");
    }
    served.map(|_| ()).and(closed)
}

/// What follows an answer.
enum Next {
    /// Another client.
    Client,
    /// The end: it was told to.
    Told,
    /// The end: its command killed the sandbox.
    Killed,
}

/// Tells the process that started this one, and lets go of its pipe.
fn announce() {
    let mut out = io::stdout();
    // If nobody reads it, the session works all the same.
    let _ = writeln!(out, "{READY}").and_then(|()| out.flush());
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// Returns the client that ended the session, if one did: it is answered when everything has ended.
fn answer_all(
    boundary: &Boundary<'_>,
    session: &SessionInfo,
    listener: &UnixListener,
    interrupts: &Interrupts,
    resident: &mut Resident,
    idle: Duration,
) -> Result<Option<UnixStream>, Failure> {
    let limit = Timespec { tv_sec: i64::try_from(idle.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 };
    loop {
        let mut ready = [PollFd::new(listener, PollFlags::IN), PollFd::new(interrupts, PollFlags::IN)];
        match poll(&mut ready, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => {
                return Err(Failure::new(Code::Io, format!("could not wait for requests: {error}")));
            }
            Ok(0) => return Ok(None),
            Ok(_) if !ready[1].revents().is_empty() => return Ok(None),
            Ok(_) => {}
        }
        // A client that goes away or sends nonsense ends only itself.
        let Ok((connection, _)) = listener.accept() else { continue };
        match answer(boundary, session, &connection, resident) {
            Ok(Next::Told) => return Ok(Some(connection)),
            Ok(Next::Killed) => return Ok(None),
            Ok(Next::Client) | Err(_) => {}
        }
    }
}

/// Answers one client, unless it ends the session.
fn answer(
    boundary: &Boundary<'_>,
    session: &SessionInfo,
    connection: &UnixStream,
    resident: &mut Resident,
) -> io::Result<Next> {
    let Some((request, stdin)) = receive_request(connection)? else { return Ok(Next::Client) };
    let run = match request {
        Request::End => return Ok(Next::Told),
        Request::Exec(run) => run.into_run(&session.vault, resident.readonly),
    };
    let peer = socket_peercred(connection)?.pid;
    let live = Passing(connection);
    let call = Call { live: &live, stop: connection.as_fd(), asker: Asker::of(peer, Some(peer)), stdin };
    let mut envelope = boundary.run_in(&run, call, Some(&mut *resident));
    envelope.request.vault = Some(session.vault_name.clone());
    // Nothing could be run in it any more, and it would keep its vault busy.
    let has_ended = resident.sandbox.has_ended();
    if has_ended {
        let ended = "the sandbox of the session has ended; start another with avfs session start";
        envelope.result.warnings.push(ended.to_owned());
        SessionInfo::forget(boundary.places, &session.id);
    }
    let sent = send(connection, Kind::Answer, &serde_json::to_vec(&envelope)?);
    if has_ended { Ok(Next::Killed) } else { sent.map(|()| Next::Client) }
}

/// Passes output on to a client. One that has gone ends its command, so errors need no answer here.
struct Passing<'c>(&'c UnixStream);

impl Live for Passing<'_> {
    fn output(&self, stream: OutputStream, bytes: &[u8]) {
        let kind = match stream {
            OutputStream::Stdout => Kind::Stdout,
            OutputStream::Stderr => Kind::Stderr,
        };
        let _ = send(self.0, kind, bytes);
    }
}

fn listen(places: &Places, id: &str) -> Result<UnixListener, Failure> {
    let directory = places.sessions();
    let bind = || {
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        // The path of a socket is short; that of the directory need not be.
        let opened = File::open(&directory)?;
        UnixListener::bind(socket_path(&opened, id))
    };
    bind().map_err(|error| {
        Failure::new(
            Code::of_io(&error),
            format!("could not open a socket in {}: {error}", directory.display()),
        )
    })
}

/// The path of a socket by its directory's descriptor.
pub(super) fn socket_path(directory: &File, id: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{id}.sock", directory.as_raw_fd()))
}

/// Whether something is the id of a session, and not a path.
pub(super) fn is_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= 64 && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Connects to a session. Nothing if it does not run.
pub(super) fn connect(places: &Places, id: &str) -> io::Result<Option<UnixStream>> {
    let directory = match File::open(places.sessions()) {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let path = socket_path(&directory, id);
    match UnixStream::connect(&path) {
        Ok(connection) => Ok(Some(connection)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            // Its server was killed.
            let _ = fs::remove_file(&path);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
