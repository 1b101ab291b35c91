//! Starting, using and ending sessions.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use agentiso_core::{Code, Failure};
use rustix::event::{PollFd, PollFlags, poll};

use super::record::SessionInfo;
use super::server::{READY, connect, is_id};
use super::wire::{Kind, Request, WireRun, receive, send_request};
use crate::envelope::Envelope;
use crate::request::Run;
use crate::run::interrupt::Interrupts;
use crate::run::{Live, OutputStream, Places};

/// The sessions of an installation.
pub struct Sessions<'p> {
    places: &'p Places,
}

impl<'p> Sessions<'p> {
    /// The sessions of an installation.
    pub fn new(places: &'p Places) -> Self {
        Self { places }
    }

    /// Starts a session in a vault. `server` are the arguments with which this program calls
    /// [`super::serve_session`]; the id, the vault, the idle time in seconds and, if so, `--readonly` follow.
    pub fn start(
        &self,
        server: &[&str],
        vault: &str,
        readonly: bool,
        idle: Duration,
    ) -> Result<SessionInfo, Failure> {
        let id = uuid::Uuid::now_v7().to_string();
        let failed = |error: io::Error| {
            Failure::new(Code::of_io(&error), format!("could not start the session: {error}"))
        };
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(server).arg(&id).arg(vault).arg(idle.as_secs().to_string());
        if readonly {
            command.arg("--readonly");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut said = String::new();
        let lines = child.stdout.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines());
        for line in lines {
            let line = line.map_err(failed)?;
            if line == READY {
                let found = SessionInfo::all(self.places)?.into_iter().find(|one| one.id == id);
                return found.ok_or_else(|| Failure::new(Code::Internal, "the session has ended already"));
            }
        }
        if let Some(stderr) = child.stderr.take() {
            // What is missing of it is not worth another failure.
            let _ = io::Read::read_to_string(&mut BufReader::new(stderr), &mut said);
        }
        let status = child.wait().map_err(failed)?;
        let reason = said.trim();
        let reason =
            if reason.is_empty() { format!("its server ended with {status}") } else { reason.to_owned() };
        Err(Failure::new(Code::Internal, format!("could not start the session: {reason}")))
    }

    /// The sessions that run, oldest first. Those whose servers were killed are forgotten.
    pub fn list(&self) -> Result<Vec<SessionInfo>, Failure> {
        let mut running = Vec::new();
        for session in SessionInfo::all(self.places)? {
            match connect(self.places, &session.id) {
                Ok(Some(_)) => running.push(session),
                Ok(None) => SessionInfo::forget(self.places, &session.id),
                Err(error) => return Err(unreachable(&session.id, &error)),
            }
        }
        Ok(running)
    }

    /// Runs a command in a session.
    pub fn exec(
        &self,
        id: &str,
        run: &Run,
        stdin: Option<File>,
        live: &dyn Live,
    ) -> Result<Envelope, Failure> {
        let connection = self.connect(id)?;
        let interrupts = Interrupts::listen().map_err(|error| unreachable(id, &error))?;
        let request = Request::Exec(Box::new(WireRun::from(run)));
        send_request(&connection, &request, stdin.as_ref()).map_err(|error| unreachable(id, &error))?;
        drop(stdin);
        let mut is_interrupted = false;
        loop {
            if !is_interrupted && wait(&connection, &interrupts)? {
                // The server sees that nothing follows, ends the command, and still answers.
                connection.shutdown(std::net::Shutdown::Write).map_err(|error| unreachable(id, &error))?;
                is_interrupted = true;
            }
            match receive(&connection).map_err(|error| unreachable(id, &error))? {
                Some((Kind::Stdout, bytes)) => live.output(OutputStream::Stdout, &bytes),
                Some((Kind::Stderr, bytes)) => live.output(OutputStream::Stderr, &bytes),
                Some((Kind::Answer, bytes)) => {
                    return serde_json::from_slice(&bytes).map_err(|error| {
                        Failure::new(Code::Internal, format!("the session sent no envelope: {error}"))
                    });
                }
                Some((Kind::Request, _)) | None => {
                    return Err(Failure::new(Code::Internal, format!("the session {id} ended unexpectedly"))
                        .with_remedy("start another session"));
                }
            }
        }
    }

    /// Ends a session. Returns when it has ended.
    pub fn end(&self, id: &str) -> Result<(), Failure> {
        let connection = self.connect(id)?;
        send_request(&connection, &Request::End, None).map_err(|error| unreachable(id, &error))?;
        // The server closes the connection when it exits.
        while receive(&connection).map_err(|error| unreachable(id, &error))?.is_some() {}
        Ok(())
    }

    fn connect(&self, id: &str) -> Result<UnixStream, Failure> {
        if !is_id(id) {
            return Err(unknown(id));
        }
        connect(self.places, id).map_err(|error| unreachable(id, &error))?.ok_or_else(|| unknown(id))
    }
}

/// Waits for the server. True if this process is asked to end first.
fn wait(connection: &UnixStream, interrupts: &Interrupts) -> Result<bool, Failure> {
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(interrupts.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Failure::new(Code::Io, format!("could not wait for the session: {error}")));
            }
            Ok(_) => return Ok(!ready[1].revents().is_empty()),
        }
    }
}

fn unknown(id: &str) -> Failure {
    let id: String = id.chars().take(64).collect();
    Failure::new(Code::SessionNotFound, format!("there is no session {id:?}"))
        .with_remedy("avfs session ls shows the sessions that run")
}

fn unreachable(id: &str, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("could not reach the session {id}: {error}"))
}
