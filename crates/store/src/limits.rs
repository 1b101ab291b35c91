//! The sizes that formats and operations are bound to.

/// Longest name of an entry, in bytes; the kernel's limit.
pub const MAX_NAME: usize = 255;
/// Longest path inside a tree, in bytes; what one system call accepts.
pub const MAX_PATH: usize = 4095;
/// Longest target of a symbolic link, in bytes; the kernel's limit.
pub const MAX_TARGET: usize = 4095;
/// Largest set of extended attributes of one file, encoded.
pub const MAX_ATTRIBUTES: usize = 1 << 20;
/// Largest object before compression.
pub const MAX_OBJECT: usize = 16 << 20;
/// Files up to this size are one blob. Larger ones are cut into chunks of exactly this size, and a last, shorter one.
pub const CHUNK: usize = 256 << 10;
/// Largest file. Bounded so that the list of its chunks is one object.
pub const MAX_FILE: u64 = 64 << 40;
/// Most data chunks of one file (96 GiB of data); holes do not count.
pub const MAX_CHUNKS: u64 = 400_000;
/// Directories with more entries are stored as several pages.
pub const MAX_LEAF_ENTRIES: usize = 512;
/// Most entries of one page. Pages usually end earlier, at a name whose hash says so.
pub const MAX_PAGE_ENTRIES: usize = 2048;
/// Most entries of one directory.
pub const MAX_DIRECTORY_ENTRIES: usize = 8_000_000;
/// A pack that reaches this size is closed and another one begun.
pub const PACK_TARGET: u64 = 1 << 30;
