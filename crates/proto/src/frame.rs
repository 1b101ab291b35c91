//! Frames: bounded, typed pieces of many interleaved streams.
//!
//! ```text
//! kind u8 | channel u8 | flags u8 | 0 u8 | stream u32 LE | length u32 LE | payload … | trailer u8
//! ```

use crate::hello::{HELLO_LEN, HELLO_MAGIC, Hello};

/// Bytes before the payload.
pub const HEADER_LEN: usize = 12;
/// Bytes around the payload.
pub const OVERHEAD: usize = HEADER_LEN + 1;
/// The longest payload either side may send.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// Payload of a full data frame: header and trailer included it is four of the 32 KiB pieces in which a guest's
/// virtio console takes writes.
pub const DATA_PAYLOAD: usize = 128 * 1024 - OVERHEAD;
/// Bytes one side may send on a channel before the other grants more.
pub const WINDOW: u32 = 1024 * 1024;
/// Streams that may be open at once. An agent of version 1 takes no more than [`MAX_STREAMS_1`].
pub const MAX_STREAMS: usize = 1024;
/// As [`MAX_STREAMS`], in version 1.
pub const MAX_STREAMS_1: usize = 256;
/// Zero bytes that bring any decoder to a frame boundary, or to searching for a Hello: they complete the largest
/// frame that can be outstanding, twice over because a cut header may be completed first.
pub const RESYNC_PADDING: usize = 2 * (MAX_PAYLOAD + OVERHEAD);
/// The last byte of every frame; not zero, so that padding never completes a frame.
pub const TRAILER: u8 = 0x5a;

const FLAG_FINAL: u8 = 1;

/// What a frame is for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// Host to guest: opens a stream with a [`crate::Request`].
    Request = 1,
    /// Guest to host: a [`crate::Response`] on a stream; the final one closes it.
    Response = 2,
    /// Raw bytes on a channel of a stream.
    Data = 3,
    /// No more data on this channel.
    Eof = 4,
    /// The receiver of data allows `u32` more bytes on this channel.
    Credit = 5,
    /// Host to guest: the stream's work should end now.
    Cancel = 6,
    /// Host to guest: a [`crate::Control`] for a running stream.
    Control = 7,
    /// Echo request, answered ahead of all other work.
    Ping = 8,
    /// Echo answer with the same payload.
    Pong = 9,
}

impl Kind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Request,
            2 => Self::Response,
            3 => Self::Data,
            4 => Self::Eof,
            5 => Self::Credit,
            6 => Self::Cancel,
            7 => Self::Control,
            8 => Self::Ping,
            9 => Self::Pong,
            _ => return None,
        })
    }
}

/// Which of a stream's byte flows.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Channel {
    /// Input of a command, or the content of a file or tree in either direction.
    Main = 0,
    /// A command's standard output, or everything from a terminal.
    Stdout = 1,
    /// A command's standard error.
    Stderr = 2,
}

impl Channel {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Main,
            1 => Self::Stdout,
            2 => Self::Stderr,
            _ => return None,
        })
    }
}

/// One frame.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// Which flow it belongs to, for data, end of data and credit.
    pub channel: Channel,
    /// On a response: nothing more follows on this stream.
    pub last: bool,
    /// Which stream.
    pub stream: u32,
    /// The content.
    pub payload: Vec<u8>,
}

/// Writes the header of a frame whose payload and [`TRAILER`] the caller sends itself.
pub fn encode_header(kind: Kind, channel: Channel, last: bool, stream: u32, len: usize) -> [u8; HEADER_LEN] {
    debug_assert!(len <= MAX_PAYLOAD);
    let mut header = [0; HEADER_LEN];
    header[0] = kind as u8;
    header[1] = channel as u8;
    header[2] = if last { FLAG_FINAL } else { 0 };
    header[4..8].copy_from_slice(&stream.to_le_bytes());
    header[8..12].copy_from_slice(&(len as u32).to_le_bytes());
    header
}

/// Appends a whole frame to `out`.
pub fn encode(kind: Kind, channel: Channel, last: bool, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(payload.len() + OVERHEAD);
    out.extend_from_slice(&encode_header(kind, channel, last, stream, payload.len()));
    out.extend_from_slice(payload);
    out.push(TRAILER);
}

/// What a decoder found in the stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A frame.
    Frame(Frame),
    /// The host starts a new session (only ever seen by the guest).
    Hello(Hello),
    /// The stream made no sense. The decoder now discards everything up to the next Hello.
    Lost(FrameError),
}

/// Why a stream was given up.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// Not a kind of frame.
    #[error("unknown frame kind {0:#04x}")]
    Kind(u8),
    /// Not a channel.
    #[error("unknown channel {0}")]
    Channel(u8),
    /// Flags or reserved bits this version does not know.
    #[error("unknown frame flags")]
    Flags,
    /// The payload would be too long.
    #[error("frame of {0} bytes is longer than allowed")]
    TooLong(u32),
    /// The trailer byte is missing: the frame was cut or padded.
    #[error("frame does not end where it should")]
    Trailer,
    /// Something like a Hello, but not one.
    #[error("malformed hello")]
    Hello,
}

#[derive(Debug)]
enum State {
    Boundary,
    Header { have: usize },
    Hello { have: usize },
    Payload { frame: Frame, need: usize },
    Trailer { frame: Frame },
    Searching { matched: usize },
}

/// Turns bytes, however they are cut, into frames.
///
/// Memory is bounded by [`MAX_PAYLOAD`]; nothing a peer sends can make it panic, and after an error it finds the
/// next Hello by itself.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    scratch: [u8; HELLO_LEN],
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Starts at a frame boundary.
    pub fn new() -> Self {
        Self { state: State::Boundary, scratch: [0; HELLO_LEN] }
    }

    /// Starts by discarding everything up to the first Hello.
    pub fn searching() -> Self {
        Self { state: State::Searching { matched: 0 }, scratch: [0; HELLO_LEN] }
    }

    /// Takes bytes from the front of `input` up to and including the next event, if one is complete.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Event> {
        while !input.is_empty() {
            match std::mem::replace(&mut self.state, State::Boundary) {
                State::Boundary => {
                    let first = input[0];
                    if first == 0 {
                        let zeros = input.iter().take_while(|&&byte| byte == 0).count();
                        *input = &input[zeros..];
                    } else if first == HELLO_MAGIC[0] {
                        self.state = State::Hello { have: 0 };
                    } else {
                        self.state = State::Header { have: 0 };
                    }
                }
                State::Header { have } => {
                    let have = self.fill(have, HEADER_LEN, input);
                    if have < HEADER_LEN {
                        self.state = State::Header { have };
                    } else {
                        match parse_header(&self.scratch) {
                            Ok((frame, 0)) => self.state = State::Trailer { frame },
                            Ok((frame, need)) => self.state = State::Payload { frame, need },
                            Err(error) => return Some(self.lose(error)),
                        }
                    }
                }
                State::Payload { mut frame, need } => {
                    let take = (need - frame.payload.len()).min(input.len());
                    frame.payload.extend_from_slice(&input[..take]);
                    *input = &input[take..];
                    self.state = if frame.payload.len() == need {
                        State::Trailer { frame }
                    } else {
                        State::Payload { frame, need }
                    };
                }
                State::Trailer { frame } => {
                    if input[0] != TRAILER {
                        return Some(self.lose(FrameError::Trailer));
                    }
                    *input = &input[1..];
                    return Some(Event::Frame(frame));
                }
                State::Hello { have } => {
                    let have = self.fill(have, HELLO_LEN, input);
                    if !starts_like_magic(&self.scratch[..have]) {
                        return Some(self.lose(FrameError::Hello));
                    }
                    if have < HELLO_LEN {
                        self.state = State::Hello { have };
                    } else {
                        match Hello::parse(&self.scratch) {
                            Some(hello) => return Some(Event::Hello(hello)),
                            None => return Some(self.lose(FrameError::Hello)),
                        }
                    }
                }
                State::Searching { matched } => self.search(matched, input),
            }
        }
        None
    }

    /// How many payload bytes the current frame still lacks; a reader can fetch them in one go.
    pub fn wanted(&self) -> usize {
        match &self.state {
            State::Payload { frame, need } => need - frame.payload.len() + 1,
            State::Trailer { .. } => 1,
            _ => HEADER_LEN,
        }
    }

    fn fill(&mut self, have: usize, need: usize, input: &mut &[u8]) -> usize {
        let take = (need - have).min(input.len());
        self.scratch[have..have + take].copy_from_slice(&input[..take]);
        *input = &input[take..];
        have + take
    }

    fn lose(&mut self, error: FrameError) -> Event {
        self.state = State::Searching { matched: 0 };
        Event::Lost(error)
    }

    /// Looks for the magic byte by byte. The magic's first byte occurs nowhere else in it, so a mismatch can only
    /// restart at the mismatching byte itself.
    fn search(&mut self, mut matched: usize, input: &mut &[u8]) {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            matched =
                if byte == HELLO_MAGIC[matched] { matched + 1 } else { usize::from(byte == HELLO_MAGIC[0]) };
            if matched == HELLO_MAGIC.len() {
                self.scratch[..matched].copy_from_slice(&HELLO_MAGIC);
                self.state = State::Hello { have: matched };
                return;
            }
        }
        self.state = State::Searching { matched };
    }
}

fn starts_like_magic(bytes: &[u8]) -> bool {
    let len = bytes.len().min(HELLO_MAGIC.len());
    bytes[..len] == HELLO_MAGIC[..len]
}

fn parse_header(header: &[u8]) -> Result<(Frame, usize), FrameError> {
    let kind = Kind::from_byte(header[0]).ok_or(FrameError::Kind(header[0]))?;
    let channel = Channel::from_byte(header[1]).ok_or(FrameError::Channel(header[1]))?;
    if header[2] & !FLAG_FINAL != 0 || header[3] != 0 {
        return Err(FrameError::Flags);
    }
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (stream, len) = (word(4), word(8));
    if len as usize > MAX_PAYLOAD {
        return Err(FrameError::TooLong(len));
    }
    let payload = Vec::with_capacity(len as usize);
    Ok((Frame { kind, channel, last: header[2] & FLAG_FINAL != 0, stream, payload }, len as usize))
}
