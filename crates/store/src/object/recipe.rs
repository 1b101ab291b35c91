//! The content of a large file: chunks and holes. All chunks have the same size except the last, so the position of
//! each follows from its number.

use super::codec::{Malformed, Reader, Writer};
use crate::error::StoreError;
use crate::id::ObjectId;
use crate::limits::{CHUNK, MAX_CHUNKS, MAX_FILE};

const MAGIC: &[u8; 4] = b"AiTR";
const VERSION: u8 = 1;
const HOLE: u8 = 0;
const DATA: u8 = 1;

/// One chunk, or a run of chunks that contain only zeros.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Segment {
    /// This many chunks of zeros.
    Hole(u64),
    /// A blob of one chunk.
    Data(ObjectId),
}

/// The chunks of a file in order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Recipe {
    size: u64,
    segments: Vec<Segment>,
    chunks: u64,
}

impl Recipe {
    /// Adds a chunk of a file.
    pub fn push_data(&mut self, id: ObjectId) {
        self.segments.push(Segment::Data(id));
        self.chunks += 1;
    }

    /// Adds chunks of zeros.
    pub fn push_hole(&mut self, chunks: u64) {
        match self.segments.last_mut() {
            _ if chunks == 0 => return,
            Some(Segment::Hole(before)) => *before += chunks,
            _ => self.segments.push(Segment::Hole(chunks)),
        }
        self.chunks += chunks;
    }

    /// Sets the size in bytes, once all chunks are known.
    pub fn finish(mut self, size: u64) -> Result<Self, StoreError> {
        self.size = size;
        self.check().map_err(|Malformed(reason)| StoreError::invalid("the file", reason))?;
        Ok(self)
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Chunks and holes in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn check(&self) -> Result<(), Malformed> {
        let data = self.segments.iter().filter(|segment| matches!(segment, Segment::Data(_))).count();
        if self.size > MAX_FILE || data as u64 > MAX_CHUNKS {
            return Err(Malformed("it is too large to be stored"));
        }
        if self.chunks != self.size.div_ceil(CHUNK as u64) {
            return Err(Malformed("its chunks do not add up to its size"));
        }
        Ok(())
    }

    /// Encodes the recipe.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new(MAGIC, VERSION);
        writer.number(self.size);
        writer.number(self.segments.len() as u64);
        for segment in &self.segments {
            match segment {
                Segment::Hole(chunks) => {
                    writer.byte(HOLE);
                    writer.number(*chunks);
                }
                Segment::Data(id) => {
                    writer.byte(DATA);
                    writer.raw(id.as_bytes());
                }
            }
        }
        writer.0
    }

    /// Decodes a recipe.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(bytes).map_err(|Malformed(reason)| StoreError::damaged("a list of chunks", reason))
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, MAGIC, VERSION)?;
        let mut recipe = Self { size: reader.number()?, ..Self::default() };
        for _ in 0..reader.count(2)? {
            match reader.byte()? {
                HOLE => {
                    let chunks = reader.number()?;
                    let follows_hole = matches!(recipe.segments.last(), Some(Segment::Hole(_)));
                    if follows_hole || chunks == 0 || chunks > MAX_FILE / CHUNK as u64 {
                        return Err(Malformed("a hole is invalid"));
                    }
                    recipe.push_hole(chunks);
                }
                DATA => recipe.push_data(ObjectId::from_bytes(reader.array()?)),
                _ => return Err(Malformed("a segment is of unknown kind")),
            }
        }
        reader.end()?;
        recipe.check()?;
        Ok(recipe)
    }
}
