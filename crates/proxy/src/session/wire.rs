//! Messages between a client and the server of a session, on one machine and of one version of this program.
//!
//! A message is its kind, its length and its bytes. The first message of a client may carry its standard input.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::envelope::{CheckpointMode, CommandMode};
use crate::request::{Invocation, Run, Variable};

/// The largest message.
const MOST: u32 = 64 << 20;

/// The kinds of messages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A request, as JSON.
    Request = 1,
    /// Standard output.
    Stdout = 2,
    /// Standard error.
    Stderr = 3,
    /// The envelope, as JSON; for other requests `null`.
    Answer = 4,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        [Self::Request, Self::Stdout, Self::Stderr, Self::Answer].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// What a client asks for.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Runs a command.
    Exec(Box<WireRun>),
    /// Ends the session.
    End,
}

/// A run. The vault and whether it can be changed are those of the session.
#[derive(Debug, Deserialize, Serialize)]
pub struct WireRun {
    mode: CommandMode,
    words: Vec<String>,
    cwd: String,
    checkpoint: CheckpointMode,
    timeout_ms: Option<u64>,
    env: Vec<(String, String)>,
    stdin: bool,
    approve: Option<String>,
    dry_run: bool,
    stream: bool,
}

impl From<&Run> for WireRun {
    fn from(run: &Run) -> Self {
        let (mode, words) = match &run.command {
            Invocation::Argv(argv) => (CommandMode::Argv, argv.clone()),
            Invocation::Shell(line) => (CommandMode::Shell, vec![line.clone()]),
        };
        Self {
            mode,
            words,
            cwd: run.cwd.clone(),
            checkpoint: run.checkpoint,
            timeout_ms: run.timeout.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)),
            env: run.env.iter().map(|one| (one.name.clone(), one.value.clone())).collect(),
            stdin: run.stdin,
            approve: run.approve.clone(),
            dry_run: run.dry_run,
            stream: run.stream,
        }
    }
}

impl WireRun {
    /// The run in a vault.
    pub fn into_run(mut self, vault: &str, readonly: bool) -> Run {
        let command = match self.mode {
            CommandMode::Argv => Invocation::Argv(self.words),
            CommandMode::Shell => Invocation::Shell(self.words.pop().unwrap_or_default()),
        };
        Run {
            vault: Some(vault.to_owned()),
            cwd: self.cwd,
            readonly,
            checkpoint: self.checkpoint,
            timeout: self.timeout_ms.map(std::time::Duration::from_millis),
            env: self.env.into_iter().map(|(name, value)| Variable { name, value }).collect(),
            stdin: self.stdin,
            approve: self.approve,
            dry_run: self.dry_run,
            stream: self.stream,
            ..Run::new(command)
        }
    }
}

/// Sends a message.
pub fn send(mut to: &UnixStream, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let mut message = Vec::with_capacity(bytes.len() + 5);
    message.push(kind as u8);
    message.extend(length(bytes)?.to_le_bytes());
    message.extend(bytes);
    to.write_all(&message)
}

/// Sends a request with a descriptor.
pub fn send_request(to: &UnixStream, request: &Request, stdin: Option<&File>) -> io::Result<()> {
    let bytes = serde_json::to_vec(request)?;
    let mut head = vec![Kind::Request as u8];
    head.extend(length(&bytes)?.to_le_bytes());
    let fds: Vec<_> = stdin.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let sent = sendmsg(to, &[IoSlice::new(&head)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let mut to = to;
    to.write_all(&head[sent..])?;
    to.write_all(&bytes)
}

/// Receives a request and the descriptor that came with it. Nothing if the client has gone.
pub fn receive_request(from: &UnixStream) -> io::Result<Option<(Request, Option<File>)>> {
    let mut first = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let read = recvmsg(from, &mut [IoSliceMut::new(&mut first)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut stdin = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            stdin = fds.map(File::from).next();
        }
    }
    if read.bytes == 0 {
        return Ok(None);
    }
    let bytes = body(from)?;
    match Kind::of(first[0]) {
        Some(Kind::Request) => Ok(Some((serde_json::from_slice(&bytes)?, stdin))),
        _ => Err(malformed()),
    }
}

/// Receives a message. Nothing if the server has gone.
pub fn receive(mut from: &UnixStream) -> io::Result<Option<(Kind, Vec<u8>)>> {
    let mut first = [0];
    if from.read(&mut first)? == 0 {
        return Ok(None);
    }
    let kind = Kind::of(first[0]).ok_or_else(malformed)?;
    Ok(Some((kind, body(from)?)))
}

fn body(mut from: &UnixStream) -> io::Result<Vec<u8>> {
    let mut size = [0; 4];
    from.read_exact(&mut size)?;
    let size = u32::from_le_bytes(size);
    if size > MOST {
        return Err(malformed());
    }
    let mut bytes = vec![0; size as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).ok().filter(|size| *size <= MOST).ok_or_else(malformed)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the message is malformed")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_arrives_with_its_standard_input() {
        let (client, server) = UnixStream::pair().unwrap();
        let run = Run {
            env: vec![Variable { name: "A".to_owned(), value: "b".to_owned() }],
            timeout: Some(Duration::from_millis(1500)),
            stdin: true,
            ..Run::new(Invocation::Shell("cat".to_owned()))
        };
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"input").unwrap();
        send_request(&client, &Request::Exec(Box::new(WireRun::from(&run))), Some(&file)).unwrap();
        let (request, stdin) = receive_request(&server).unwrap().unwrap();
        let Request::Exec(got) = request else { panic!("{request:?}") };
        let expected = Run { vault: Some("work".to_owned()), readonly: true, ..run };
        assert_eq!(got.into_run("work", true), expected);
        assert_eq!(stdin.unwrap().metadata().unwrap().len(), 5);
    }

    #[test]
    fn messages_are_told_from_the_end() {
        let (client, server) = UnixStream::pair().unwrap();
        send(&server, Kind::Stdout, b"out").unwrap();
        assert_eq!(receive(&client).unwrap(), Some((Kind::Stdout, b"out".to_vec())));
        drop(server);
        assert_eq!(receive(&client).unwrap(), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&b"\x09\0\0\0\0"[..], b"\x01\xff\xff\xff\xff", b"\x01\x02\0\0\0{}"] {
            let (client, server) = UnixStream::pair().unwrap();
            (&client).write_all(bytes).unwrap();
            drop(client);
            receive_request(&server).unwrap_err();
        }
    }
}
