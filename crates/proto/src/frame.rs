//! Frames: bounded, typed units in which many streams are multiplexed.
//!
//! ```text
//! kind u8 | channel u8 | flags u8 | 0 u8 | stream u32 LE | length u32 LE | payload … | trailer u8
//! ```

use crate::hello::{HELLO_LEN, HELLO_MAGIC, Hello};

/// Bytes before the payload.
pub const HEADER_LEN: usize = 12;
/// Bytes of header and trailer.
pub const OVERHEAD: usize = HEADER_LEN + 1;
/// Limit on the payload of a frame.
pub const MAX_PAYLOAD: usize = 256 * 1024;
/// Payload of a full data frame. With header and trailer it is four times 32 KiB, the unit in which a guest's virtio
/// console accepts writes.
pub const DATA_PAYLOAD: usize = 128 * 1024 - OVERHEAD;
/// Initial credit: bytes that may be sent on a channel before the receiver grants more.
pub const WINDOW: u32 = 1024 * 1024;
/// Maximum number of open streams. An agent of version 1 accepts only [`MAX_STREAMS_1`].
pub const MAX_STREAMS: usize = 1024;
/// [`MAX_STREAMS`] in version 1.
pub const MAX_STREAMS_1: usize = 256;
/// Number of zero bytes that bring any decoder to a frame boundary, or to searching for a Hello. They complete the
/// largest possible frame; doubled, because they may first have to complete a header.
pub const RESYNC_PADDING: usize = 2 * (MAX_PAYLOAD + OVERHEAD);
/// The last byte of every frame. Not zero, so that padding never completes a frame.
pub const TRAILER: u8 = 0x5a;

const FLAG_FINAL: u8 = 1;

/// The type of a frame.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// Host to guest: opens a stream with a [`crate::Request`].
    Request = 1,
    /// Guest to host: a [`crate::Response`] on a stream; the final one closes it.
    Response = 2,
    /// Raw bytes on a channel of a stream.
    Data = 3,
    /// End of data on this channel.
    Eof = 4,
    /// Grants the sender of data `u32` more bytes on this channel.
    Credit = 5,
    /// Host to guest: cancels the work of the stream.
    Cancel = 6,
    /// Host to guest: a [`crate::Control`] for a running stream.
    Control = 7,
    /// Echo request. Answered before any other work.
    Ping = 8,
    /// Echo reply with the same payload.
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

/// One of the byte channels of a stream.
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
    /// The type of the frame.
    pub kind: Kind,
    /// The channel, for data, end of data and credit.
    pub channel: Channel,
    /// On a response: it is the final one of this stream.
    pub last: bool,
    /// The id of the stream.
    pub stream: u32,
    /// At most [`MAX_PAYLOAD`] bytes.
    pub payload: Vec<u8>,
}

/// Encodes the header of a frame whose payload and [`TRAILER`] the caller sends separately.
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

/// Appends a complete frame to `out`.
pub fn encode(kind: Kind, channel: Channel, last: bool, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.reserve(payload.len() + OVERHEAD);
    out.extend_from_slice(&encode_header(kind, channel, last, stream, payload.len()));
    out.extend_from_slice(payload);
    out.push(TRAILER);
}

/// What a decoder found in the byte stream.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A complete frame.
    Frame(Frame),
    /// The host starts a new session. Only the guest receives this.
    Hello(Hello),
    /// The bytes are not a valid frame. The decoder now discards everything up to the next Hello.
    Lost(FrameError),
}

/// Why the decoder lost synchronisation.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FrameError {
    /// The frame kind is unknown.
    #[error("unknown frame kind {0:#04x}")]
    Kind(u8),
    /// The channel is unknown.
    #[error("unknown channel {0}")]
    Channel(u8),
    /// A flag or reserved bit is set that this version does not define.
    #[error("unknown frame flags")]
    Flags,
    /// The payload exceeds [`MAX_PAYLOAD`].
    #[error("frame of {0} bytes is longer than allowed")]
    TooLong(u32),
    /// The trailer byte is wrong: the frame was truncated or padded.
    #[error("frame without a valid trailer")]
    Trailer,
    /// The magic of a Hello, but invalid content.
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

/// Decodes frames from bytes that arrive in chunks of any size.
///
/// Memory is bounded by [`MAX_PAYLOAD`]. No input makes it panic, and after an error it resynchronises at the next
/// Hello.
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
    /// Creates a decoder that starts at a frame boundary.
    pub fn new() -> Self {
        Self { state: State::Boundary, scratch: [0; HELLO_LEN] }
    }

    /// Creates a decoder that discards everything up to the first Hello.
    pub fn searching() -> Self {
        Self { state: State::Searching { matched: 0 }, scratch: [0; HELLO_LEN] }
    }

    /// Consumes bytes from the front of `input` up to and including the next event. Returns `None` if none is complete.
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

    /// Number of payload bytes missing from the current frame, so that a reader can fetch them in one call.
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

    /// Searches for the magic byte by byte. The first byte of the magic occurs only once in it, so after a mismatch the
    /// search can only restart at the mismatching byte.
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
