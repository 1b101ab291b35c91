//! The fixed-size parts of a pack.

use crate::error::StoreError;
use crate::id::{ObjectId, ObjectKind};
use crate::limits::MAX_OBJECT;

pub(crate) const MAGIC: &[u8; 8] = b"AiSPACK\n";
pub(crate) const FOOTER_MAGIC: &[u8; 8] = b"AiSPEND\n";
pub(crate) const RECORD_MAGIC: &[u8; 4] = b"obj\n";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER_LEN: usize = 16;
pub(crate) const RECORD_LEN: usize = 48;
pub(crate) const ENTRY_LEN: usize = 56;
pub(crate) const FOOTER_LEN: usize = 72;
/// Most bits of the fan-out: 256 KiB of it.
pub(crate) const MAX_FAN_BITS: u32 = 16;
/// Most objects in a pack; offsets in the fan-out have 32 bits.
pub(crate) const MAX_OBJECTS: u64 = 1 << 28;

/// How the bytes of an object are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Encoding {
    /// As they are.
    Plain = 0,
    /// One zstd frame.
    Zstd = 1,
}

impl Encoding {
    fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Plain),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

pub(crate) fn header() -> [u8; HEADER_LEN] {
    let mut bytes = [0; HEADER_LEN];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// What precedes the bytes of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecordHeader {
    /// The object.
    pub id: ObjectId,
    /// Its kind.
    pub kind: ObjectKind,
    /// How its bytes are stored.
    pub encoding: Encoding,
    /// Number of stored bytes that follow.
    pub stored: u32,
    /// Number of bytes of the object.
    pub raw: u32,
}

impl RecordHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        bytes[..4].copy_from_slice(RECORD_MAGIC);
        bytes[4..36].copy_from_slice(self.id.as_bytes());
        bytes[36] = self.kind as u8;
        bytes[37] = self.encoding as u8;
        bytes[40..44].copy_from_slice(&self.stored.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.raw.to_le_bytes());
        bytes
    }

    /// Decodes a header; nothing if it is not one.
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Self> {
        let mut fields = Fields(bytes);
        if fields.take::<4>()? != *RECORD_MAGIC {
            return None;
        }
        let id = ObjectId::from_bytes(fields.take()?);
        let [kind, encoding, zero, also_zero] = fields.take()?;
        let header = Self {
            id,
            kind: ObjectKind::from_byte(kind)?,
            encoding: Encoding::from_byte(encoding)?,
            stored: fields.u32()?,
            raw: fields.u32()?,
        };
        (zero == 0 && also_zero == 0 && sizes_fit(header.encoding, header.stored, header.raw))
            .then_some(header)
    }
}

fn sizes_fit(encoding: Encoding, stored: u32, raw: u32) -> bool {
    raw as usize <= MAX_OBJECT
        && match encoding {
            Encoding::Plain => stored == raw,
            Encoding::Zstd => stored < raw,
        }
}

/// Where an object is in a pack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IndexEntry {
    /// Its record header, as it stands before it.
    pub header: RecordHeader,
    /// Where the record header begins.
    pub offset: u64,
}

impl IndexEntry {
    /// Encodes the entry.
    pub fn encode(&self) -> [u8; ENTRY_LEN] {
        let mut bytes = [0; ENTRY_LEN];
        bytes[..32].copy_from_slice(self.header.id.as_bytes());
        bytes[32..40].copy_from_slice(&self.offset.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.header.stored.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.header.raw.to_le_bytes());
        bytes[48] = self.header.kind as u8;
        bytes[49] = self.header.encoding as u8;
        bytes
    }

    /// Decodes an entry; nothing if it is invalid.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let id = ObjectId::from_bytes(fields.take()?);
        let offset = u64::from_le_bytes(fields.take()?);
        let (stored, raw) = (fields.u32()?, fields.u32()?);
        let [kind, encoding, ..] = fields.take::<8>()?;
        let header = RecordHeader {
            id,
            kind: ObjectKind::from_byte(kind)?,
            encoding: Encoding::from_byte(encoding)?,
            stored,
            raw,
        };
        sizes_fit(header.encoding, stored, raw).then_some(Self { header, offset })
    }

    /// Where the record ends.
    pub(crate) fn end(&self) -> u64 {
        self.offset + RECORD_LEN as u64 + u64::from(self.header.stored)
    }
}

/// The end of a pack.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Footer {
    /// The fan-out has `2^fan_bits` entries.
    pub fan_bits: u32,
    /// Number of objects.
    pub count: u64,
    /// Where the index begins.
    pub index_offset: u64,
    /// BLAKE3 of index and fan-out, then of the other fields.
    pub checksum: [u8; 32],
}

impl Footer {
    /// Length of index and fan-out.
    pub(crate) fn table_len(&self) -> u64 {
        self.count * ENTRY_LEN as u64 + self.fan_len() as u64
    }

    pub(crate) fn fan_len(&self) -> usize {
        4 << self.fan_bits
    }

    /// Encodes the footer.
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.fan_bits.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.index_offset.to_le_bytes());
        bytes[24..56].copy_from_slice(&self.checksum);
        bytes[64..72].copy_from_slice(FOOTER_MAGIC);
        bytes
    }

    /// Decodes the footer of a pack of `pack_len` bytes.
    pub fn decode(bytes: &[u8], pack_len: u64) -> Result<Self, StoreError> {
        let damaged = |reason: &'static str| StoreError::damaged("the pack", reason);
        let parse = || {
            let mut fields = Fields(bytes);
            let (version, fan_bits) = (fields.u32()?, fields.u32()?);
            let count = u64::from_le_bytes(fields.take()?);
            let index_offset = u64::from_le_bytes(fields.take()?);
            let checksum = fields.take()?;
            fields.take::<8>()?;
            let magic = fields.take::<8>()?;
            Some((version, magic, Self { fan_bits, count, index_offset, checksum }))
        };
        let (version, magic, footer) = parse().ok_or_else(|| damaged("its footer is too short"))?;
        if magic != *FOOTER_MAGIC {
            return Err(damaged("its footer is missing"));
        }
        if version != VERSION {
            return Err(damaged("its version is unknown"));
        }
        if footer.fan_bits > MAX_FAN_BITS || footer.count > MAX_OBJECTS {
            return Err(damaged("its footer has impossible numbers"));
        }
        let end = footer.index_offset.checked_add(footer.table_len() + FOOTER_LEN as u64);
        if end != Some(pack_len) || footer.index_offset < HEADER_LEN as u64 {
            return Err(damaged("its length is wrong"));
        }
        Ok(footer)
    }

    /// The checksum that belongs to a table.
    pub(crate) fn sum(&self, table: &[u8]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(table);
        for number in [u64::from(VERSION), u64::from(self.fan_bits), self.count, self.index_offset] {
            hasher.update(&number.to_le_bytes());
        }
        *hasher.finalize().as_bytes()
    }
}

/// Bits of the fan-out for a number of objects: about sixteen objects for each of its entries.
pub(crate) fn fan_bits(count: usize) -> u32 {
    (count / 16).max(1).ilog2().min(MAX_FAN_BITS)
}

/// The entry of the fan-out that an id belongs to.
pub(crate) fn bucket(id: &ObjectId, bits: u32) -> usize {
    if bits == 0 { 0 } else { (id.prefix() >> (32 - bits)) as usize }
}

/// Little-endian numbers one after another.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }
}
