//! A small blocking host for the real agent, which runs as an ordinary process at the other end of a socket pair.

use std::{
    collections::HashMap,
    io::{ErrorKind as IoErrorKind, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agentiso_proto::{
    Channel, Control, Decoder, ErrorKind, Event, Exec, Exit, ExitStatus, Frame, Hello, Inherit, Kind,
    Request, Response, Status, WINDOW, Welcome, WelcomeScanner, encode, from_bytes, to_bytes,
};

/// A test that receives nothing for this long has failed.
const SILENCE: Duration = Duration::from_secs(60);

pub struct Host {
    agent: Child,
    socket: UnixStream,
    decoder: Decoder,
    unread: Vec<u8>,
    last_stream: u32,
    streams: HashMap<u32, Heard>,
    pongs: Vec<Vec<u8>>,
    nonce: u8,
}

/// What the agent sent on a stream.
#[derive(Debug, Default)]
pub struct Heard {
    pub main: Vec<u8>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub eofs: Vec<Channel>,
    /// All responses but the final one.
    pub responses: Vec<Response>,
    pub last: Option<Response>,
    /// Remaining send credit on the main channel.
    room: u32,
    stalled: bool,
}

impl Heard {
    pub fn exit(&self) -> Exit {
        match &self.last {
            Some(Response::Exited(exit)) => *exit,
            other => panic!("not an exit: {other:?}"),
        }
    }

    pub fn error(&self) -> ErrorKind {
        match &self.last {
            Some(Response::Error(error)) => error.kind,
            other => panic!("not an error: {other:?}"),
        }
    }

    pub fn assert_done(&self) {
        assert_eq!(self.last, Some(Response::Done));
    }

    pub fn assert_code(&self, code: i32) {
        assert_eq!(
            self.exit().status,
            ExitStatus::Code(code),
            "stderr: {}",
            String::from_utf8_lossy(&self.stderr)
        );
    }
}

pub fn shell(script: &str) -> Exec {
    Exec { argv: ["/bin/sh", "-c", script].map(|word| word.as_bytes().to_vec()).to_vec(), ..Exec::default() }
}

impl Host {
    /// Starts an agent and a session with it.
    pub fn start() -> Self {
        let mut host = Self::start_silent();
        let welcome = host.hello(Inherit::Kill);
        assert_eq!(welcome.version, agentiso_proto::VERSION_MAX);
        host
    }

    /// Starts an agent without sending it anything.
    pub fn start_silent() -> Self {
        let (socket, other) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(SILENCE)).unwrap();
        socket.set_write_timeout(Some(SILENCE)).unwrap();
        let agent = Command::new(env!("CARGO_BIN_EXE_agentiso-guest"))
            .args(["--serve-fd", "0"])
            .stdin(Stdio::from(OwnedFd::from(other)))
            .spawn()
            .unwrap();
        Self {
            agent,
            socket,
            decoder: Decoder::new(),
            unread: Vec::new(),
            last_stream: 0,
            streams: HashMap::new(),
            pongs: Vec::new(),
            nonce: 0,
        }
    }

    pub fn hello(&mut self, inherit: Inherit) -> Welcome {
        self.nonce += 1;
        let nonce = [self.nonce; 16];
        self.raw(&Hello::new(nonce, inherit).encode());
        self.welcome(nonce)
    }

    /// Discards everything up to the Welcome with this nonce.
    pub fn welcome(&mut self, nonce: [u8; 16]) -> Welcome {
        let mut scanner = WelcomeScanner::new(nonce);
        self.streams.clear();
        self.decoder = Decoder::new();
        let mut bytes = std::mem::take(&mut self.unread);
        loop {
            let mut rest = bytes.as_slice();
            if let Some(welcome) = scanner.next(&mut rest) {
                self.unread = rest.to_vec();
                return welcome;
            }
            bytes = self.read();
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    pub fn frame(&mut self, kind: Kind, channel: Channel, stream: u32, payload: &[u8]) {
        let mut bytes = Vec::new();
        encode(kind, channel, false, stream, payload, &mut bytes);
        self.raw(&bytes);
    }

    pub fn open(&mut self, request: &Request) -> u32 {
        self.last_stream += 1;
        let stream = self.last_stream;
        self.open_on(stream, request);
        stream
    }

    pub fn open_on(&mut self, stream: u32, request: &Request) {
        self.expect_stream(stream);
        self.frame(Kind::Request, Channel::Main, stream, &to_bytes(request).unwrap());
    }

    pub fn expect_stream(&mut self, stream: u32) {
        self.streams.insert(stream, Heard { room: WINDOW, ..Heard::default() });
    }

    pub fn call(&mut self, request: &Request) -> Heard {
        let stream = self.open(request);
        self.finish(stream)
    }

    pub fn exec(&mut self, exec: Exec) -> Heard {
        self.call(&Request::Exec(exec))
    }

    pub fn status(&mut self) -> Status {
        match self.call(&Request::Status).last {
            Some(Response::Status(status)) => status,
            other => panic!("not a status: {other:?}"),
        }
    }

    /// Grants no more credit to this stream.
    pub fn stall(&mut self, stream: u32) {
        self.streams.get_mut(&stream).unwrap().stalled = true;
    }

    pub fn grant(&mut self, stream: u32, channel: Channel, bytes: u32) {
        self.frame(Kind::Credit, channel, stream, &bytes.to_le_bytes());
    }

    /// Sends content, waiting for credit as needed.
    pub fn send(&mut self, stream: u32, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            while self.heard(stream).room == 0 && self.heard(stream).last.is_none() {
                self.take_frame();
            }
            let heard = self.streams.get_mut(&stream).unwrap();
            if heard.last.is_some() {
                return;
            }
            let count = bytes.len().min(heard.room as usize).min(64 * 1024);
            heard.room -= count as u32;
            self.frame(Kind::Data, Channel::Main, stream, &bytes[..count]);
            bytes = &bytes[count..];
        }
    }

    pub fn send_eof(&mut self, stream: u32) {
        self.frame(Kind::Eof, Channel::Main, stream, &[]);
    }

    pub fn cancel(&mut self, stream: u32) {
        self.frame(Kind::Cancel, Channel::Main, stream, &[]);
    }

    pub fn control(&mut self, stream: u32, control: Control) {
        self.frame(Kind::Control, Channel::Main, stream, &to_bytes(&control).unwrap());
    }

    pub fn heard(&self, stream: u32) -> &Heard {
        &self.streams[&stream]
    }

    /// Reads frames until the final response of the stream.
    pub fn finish(&mut self, stream: u32) -> Heard {
        self.wait_until(stream, |heard| heard.last.is_some());
        self.streams.remove(&stream).unwrap()
    }

    pub fn wait_until(&mut self, stream: u32, ready: impl Fn(&Heard) -> bool) {
        while !ready(&self.streams[&stream]) {
            assert!(
                self.streams[&stream].last.is_none() || ready(&self.streams[&stream]),
                "ended too early: {:?}",
                self.streams[&stream]
            );
            self.take_frame();
        }
    }

    pub fn ping(&mut self, payload: &[u8]) {
        self.frame(Kind::Ping, Channel::Main, 0, payload);
        while !self.pongs.iter().any(|pong| pong == payload) {
            self.take_frame();
        }
        self.pongs.retain(|pong| pong != payload);
    }

    /// Disconnects and waits for the agent to exit.
    pub fn hang_up(mut self) -> std::process::ExitStatus {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        self.agent.wait().unwrap()
    }

    fn take_frame(&mut self) {
        loop {
            let bytes = std::mem::take(&mut self.unread);
            let mut rest = bytes.as_slice();
            match self.decoder.next(&mut rest) {
                Some(Event::Frame(frame)) => {
                    self.unread = rest.to_vec();
                    return self.note(frame);
                }
                Some(other) => panic!("the agent sent an invalid frame: {other:?}"),
                None => self.unread = self.read(),
            }
        }
    }

    fn note(&mut self, frame: Frame) {
        if frame.kind == Kind::Pong {
            self.pongs.push(frame.payload);
            return;
        }
        let Some(heard) = self.streams.get_mut(&frame.stream) else { panic!("stray frame {frame:?}") };
        assert_eq!(heard.last, None, "a frame after the final response");
        match frame.kind {
            Kind::Data => {
                let buffer = match frame.channel {
                    Channel::Main => &mut heard.main,
                    Channel::Stdout => &mut heard.stdout,
                    Channel::Stderr => &mut heard.stderr,
                };
                buffer.extend_from_slice(&frame.payload);
                if !heard.stalled {
                    self.grant(frame.stream, frame.channel, frame.payload.len() as u32);
                }
            }
            Kind::Eof => heard.eofs.push(frame.channel),
            Kind::Credit => heard.room += u32::from_le_bytes(frame.payload.try_into().unwrap()),
            Kind::Response => {
                let response = from_bytes(&frame.payload).unwrap();
                if frame.last {
                    heard.last = Some(response);
                } else {
                    heard.responses.push(response);
                }
            }
            other => panic!("the agent must not send {other:?}"),
        }
    }

    fn read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 256 * 1024];
        loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => panic!("the agent hung up"),
                Ok(count) => {
                    bytes.truncate(count);
                    return bytes;
                }
                Err(error) if error.kind() == IoErrorKind::Interrupted => {}
                Err(error) => panic!("the agent is silent: {error}"),
            }
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.agent.wait();
    }
}
