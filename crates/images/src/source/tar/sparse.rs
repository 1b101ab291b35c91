//! Files with holes, in the three ways tar writes them.

use std::collections::VecDeque;
use std::io::{self, Read};

use super::pax::{Pax, decimal};

/// No map takes more bytes than this.
const MAP_MAX: usize = 8 << 20;

/// Where a file's stored bytes belong; all else is zeroes.
#[derive(Clone, Debug, Default)]
pub(super) struct Map(VecDeque<(u64, u64)>);

impl Map {
    /// A file without holes.
    pub(super) fn whole(size: u64) -> Self {
        Self(VecDeque::from([(0, size)]))
    }

    /// Checks that the pieces are in order, inside the file, and as long as what is stored.
    pub(super) fn new(pieces: Vec<(u64, u64)>, size: u64, stored: u64) -> io::Result<Self> {
        let mut end = 0u64;
        let mut sum = 0u64;
        for (offset, length) in &pieces {
            let next = offset.checked_add(*length).filter(|next| *offset >= end && *next <= size);
            end = next.ok_or_else(|| malformed("the map of a sparse file is out of order"))?;
            sum += length;
        }
        if sum != stored {
            return Err(malformed("the map of a sparse file does not fit its data"));
        }
        Ok(Self(pieces.into()))
    }

    /// The map that pax records hold (formats 0.0 and 0.1), if they hold one.
    pub(super) fn pieces_of(pax: &Pax) -> io::Result<Option<Vec<(u64, u64)>>> {
        let numbers: Vec<u64> = if let Some(map) = pax.get("GNU.sparse.map") {
            map.split(|byte| *byte == b',').map(decimal).collect::<io::Result<_>>()?
        } else if pax.get("GNU.sparse.numblocks").is_some() {
            let is_piece = |key: &[u8]| matches!(key, b"GNU.sparse.offset" | b"GNU.sparse.numbytes");
            let pieces = pax.0.iter().filter(|(key, _)| is_piece(key));
            pieces.map(|(_, value)| decimal(value)).collect::<io::Result<_>>()?
        } else {
            return Ok(None);
        };
        if !numbers.len().is_multiple_of(2) {
            return Err(malformed("the map of a sparse file is incomplete"));
        }
        Ok(Some(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()))
    }

    /// Reads the map that precedes the data (format 1.0); the second result is its length in the archive.
    pub(super) fn read_pieces(mut data: impl Read) -> io::Result<(Vec<(u64, u64)>, u64)> {
        let mut text = Vec::new();
        let mut count = None;
        loop {
            let mut block = [0; 512];
            data.read_exact(&mut block)?;
            text.extend_from_slice(&block);
            let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
            if count.is_none()
                && let Some(end) = text.iter().position(|byte| *byte == b'\n')
            {
                count = Some(decimal(&text[..end])?);
            }
            if count.is_some_and(|count| count.saturating_mul(2).saturating_add(1) <= lines) {
                break;
            }
            if text.len() > MAP_MAX {
                return Err(malformed("the map of a sparse file is too long"));
            }
        }
        let wanted = usize::try_from(count.unwrap_or(0)).map_err(|_| malformed("too many pieces"))? * 2;
        let numbers: Vec<u64> =
            text.split(|byte| *byte == b'\n').skip(1).take(wanted).map(decimal).collect::<io::Result<_>>()?;
        Ok((numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(), text.len() as u64))
    }

    /// The piece that covers `at`, or the hole up to the next one: (is data, bytes from `at`).
    pub(super) fn stretch(&mut self, at: u64, size: u64) -> (bool, u64) {
        while let Some((offset, length)) = self.0.front().copied() {
            if at < offset {
                return (false, offset - at);
            }
            if at < offset + length {
                return (true, offset + length - at);
            }
            self.0.pop_front();
        }
        (false, size - at)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}
