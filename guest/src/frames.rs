//! Buffers in which a worker assembles frames without copying the payload.

use agentiso_proto::{Channel, DATA_PAYLOAD, HEADER_LEN, Kind, OVERHEAD, TRAILER, encode_header};

use crate::{groups::Group, spawn::ChildStack};

/// Buffers that a worker keeps between requests, so that a request to a warm worker allocates no memory.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) data: DataFrame,
    /// Encoded frames that are sent together with the final response.
    pub(crate) tail: Vec<u8>,
    /// The child's stack between clone and exec.
    pub(crate) stack: ChildStack,
    /// The cgroup of a command that has exited. It is cleaned up after the host has its response.
    pub(crate) group: Option<Group>,
}

/// The buffer of one data frame: header, payload, trailer.
#[derive(Default)]
pub(crate) struct DataFrame {
    bytes: Vec<u8>,
    filled: usize,
}

impl DataFrame {
    /// Number of payload bytes so far.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.bytes.get(HEADER_LEN..HEADER_LEN + self.filled).unwrap_or_default()
    }

    /// The unused part of the payload buffer.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; DATA_PAYLOAD + OVERHEAD];
        }
        &mut self.bytes[HEADER_LEN + self.filled..HEADER_LEN + DATA_PAYLOAD]
    }

    /// Adds `count` bytes, which were written to [`Self::space`], to the payload.
    pub(crate) fn advance(&mut self, count: usize) {
        self.filled = (self.filled + count).min(DATA_PAYLOAD);
    }

    /// Discards the payload.
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    /// Completes the frame, resets the buffer and returns the bytes to send.
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
