//! Archives of workspaces: a description and the files, in one file.
//!
//! ```text
//! magic, 16 bytes: "agentiso-wspace\n"
//! version, u32: 1
//! length of the description, u32, at most 256 KiB
//! description, JSON
//! pieces: length, u32, 1 byte to 1 MiB; then that many bytes. All pieces together are a tarball compressed with zstd
//! 0, u32
//! BLAKE3 of everything before, 32 bytes
//! ```
//!
//! Numbers are little-endian. Nothing follows. An archive is hostile: the checksum shows that it is complete, not that it
//! is safe. Its entries go through the same checks as those of any image.

mod description;
mod reader;
mod source;
mod writer;

pub use description::WorkspaceDescription;
pub use source::WorkspaceArchive;
pub use writer::ArchiveWriter;

const MAGIC: &[u8; 16] = b"agentiso-wspace\n";
const VERSION: u32 = 1;
const DESCRIPTION_MAX: u32 = 256 << 10;
const PIECE_MAX: usize = 1 << 20;
const HASH: usize = 32;
