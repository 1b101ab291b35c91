//! A guest made of a script: the other end of a guest link, one frame at a time.

use std::io;

use agentiso_proto::{
    Channel, Decoder, Event, Frame, Hello, Kind, Request, Response, encode, from_bytes, to_bytes,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Plays the agent on a byte stream. Every method does one thing the agent could do, sensible or not.
pub struct ScriptedGuest<S> {
    stream: S,
    decoder: Decoder,
    buffer: Vec<u8>,
    taken: usize,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ScriptedGuest<S> {
    /// Starts where a freshly booted agent does: waiting for a Hello.
    pub fn new(stream: S) -> Self {
        Self { stream, decoder: Decoder::new(), buffer: Vec::new(), taken: 0 }
    }

    /// Goes on from the middle of a frame that an earlier session left unfinished.
    pub fn after(mut self, torn: &[u8]) -> Self {
        self.buffer = torn.to_vec();
        self
    }

    /// The next thing the host sent; an error at the end of the stream.
    pub async fn event(&mut self) -> io::Result<Event> {
        loop {
            let mut rest = &self.buffer[self.taken..];
            let event = self.decoder.next(&mut rest);
            self.taken = self.buffer.len() - rest.len();
            if let Some(event) = event {
                return Ok(event);
            }
            self.buffer.resize(64 * 1024, 0);
            self.taken = 0;
            let len = self.stream.read(&mut self.buffer).await?;
            self.buffer.truncate(len);
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Waits for the host's Hello; anything else is an error.
    pub async fn hello(&mut self) -> io::Result<Hello> {
        match self.event().await? {
            Event::Hello(hello) => Ok(hello),
            other => Err(unexpected("a hello", &other)),
        }
    }

    /// Waits for the Hello and answers it.
    pub async fn welcome(&mut self) -> io::Result<()> {
        let hello = self.hello().await?;
        self.raw(&hello.answer().encode()).await
    }

    /// Waits for a frame; anything else is an error.
    pub async fn frame(&mut self) -> io::Result<Frame> {
        match self.event().await? {
            Event::Frame(frame) => Ok(frame),
            other => Err(unexpected("a frame", &other)),
        }
    }

    /// Waits for a frame of this kind; anything else is an error.
    pub async fn expect(&mut self, kind: Kind) -> io::Result<Frame> {
        let frame = self.frame().await?;
        if frame.kind == kind { Ok(frame) } else { Err(unexpected(&format!("{kind:?}"), &frame)) }
    }

    /// Waits for a request and returns it with its stream.
    pub async fn request(&mut self) -> io::Result<(u32, Request)> {
        let frame = self.expect(Kind::Request).await?;
        Ok((frame.stream, from_bytes(&frame.payload).map_err(io::Error::other)?))
    }

    /// Waits for a ping and answers it.
    pub async fn pong(&mut self) -> io::Result<()> {
        let ping = self.expect(Kind::Ping).await?;
        self.send(Kind::Pong, Channel::Main, false, ping.stream, &ping.payload).await
    }

    /// Sends a response that others follow.
    pub async fn respond(&mut self, stream: u32, response: &Response) -> io::Result<()> {
        let payload = to_bytes(response).map_err(io::Error::other)?;
        self.send(Kind::Response, Channel::Main, false, stream, &payload).await
    }

    /// Sends the last response of a stream.
    pub async fn finish(&mut self, stream: u32, response: &Response) -> io::Result<()> {
        let payload = to_bytes(response).map_err(io::Error::other)?;
        self.send(Kind::Response, Channel::Main, true, stream, &payload).await
    }

    /// Sends data.
    pub async fn data(&mut self, stream: u32, channel: Channel, bytes: &[u8]) -> io::Result<()> {
        self.send(Kind::Data, channel, false, stream, bytes).await
    }

    /// Lets the host send more on a stream's main channel.
    pub async fn credit(&mut self, stream: u32, amount: u32) -> io::Result<()> {
        self.send(Kind::Credit, Channel::Main, false, stream, &amount.to_le_bytes()).await
    }

    /// Sends a frame.
    pub async fn send(
        &mut self,
        kind: Kind,
        channel: Channel,
        last: bool,
        stream: u32,
        payload: &[u8],
    ) -> io::Result<()> {
        let mut frame = Vec::new();
        encode(kind, channel, last, stream, payload, &mut frame);
        self.raw(&frame).await
    }

    /// Sends bytes as they are.
    pub async fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

fn unexpected(wanted: &str, got: &impl std::fmt::Debug) -> io::Error {
    let got: String = format!("{got:?}").chars().take(300).collect();
    io::Error::other(format!("waited for {wanted}, got {got}"))
}
