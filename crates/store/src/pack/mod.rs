//! Packs: files that hold many objects and never change.
//!
//! ```text
//! "AiSPACK\n" version                       16 bytes
//! record*     "obj\n" id kind encoding stored-size raw-size, then the stored bytes
//! index       sorted by id: id offset stored-size raw-size kind encoding
//! fan-out     how many ids are below each prefix of `bits` bits
//! footer      version, bits, count, where the index is, BLAKE3 of index, fan-out and these numbers
//! ```
//!
//! An object is found by one read of a few index entries and read by one more. The records describe themselves, so a pack
//! whose index or footer is damaged can be rebuilt by reading it from the start.

mod format;
mod reader;
mod salvage;
mod writer;

pub use format::{Footer, IndexEntry, RecordHeader};

pub(crate) use format::RECORD_LEN;
pub(crate) use reader::{Pack, decode_pending};
pub(crate) use salvage::salvage;
pub(crate) use writer::{PackWriter, Packed, encode_object};
