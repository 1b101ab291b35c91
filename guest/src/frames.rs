//! Buffers in which a worker puts frames together without copying what it reads.

use agentiso_proto::{Channel, DATA_PAYLOAD, HEADER_LEN, Kind, OVERHEAD, TRAILER, encode_header};

use crate::{groups::Group, spawn::ChildStack};

/// What a worker keeps from one request to the next, so that a warm request allocates and faults in nothing.
#[derive(Default)]
pub(crate) struct Scratch {
    /// For data frames.
    pub(crate) data: DataFrame,
    /// Whole frames that go out together with the final response.
    pub(crate) tail: Vec<u8>,
    /// For the moment between clone and exec.
    pub(crate) stack: ChildStack,
    /// The group of a command that ended: it is tidied up when the host has its answer.
    pub(crate) group: Option<Group>,
}

/// One data frame: room for the header, the payload, the trailer.
#[derive(Default)]
pub(crate) struct DataFrame {
    bytes: Vec<u8>,
    filled: usize,
}

impl DataFrame {
    /// Payload bytes put in so far.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// The payload so far.
    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..HEADER_LEN + self.filled).unwrap_or_default()
    }

    /// The free part of the payload.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; DATA_PAYLOAD + OVERHEAD];
        }
        &mut self.bytes[HEADER_LEN + self.filled..HEADER_LEN + DATA_PAYLOAD]
    }

    /// Counts bytes written to [`Self::space`].
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled = (self.filled + count).min(DATA_PAYLOAD);
    }

    /// Forgets the payload.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Completes the frame, empties the buffer for the next one, and returns the bytes to send.
    pub(crate) fn seal(&mut self, channel: Channel, stream: u32) -> &[u8] {
        let end = HEADER_LEN + self.filled;
        let header = encode_header(Kind::Data, channel, false, stream, self.filled);
        self.space();
        self.bytes[..HEADER_LEN].copy_from_slice(&header);
        self.bytes[end] = TRAILER;
        self.filled = 0;
        &self.bytes[..=end]
    }
}
