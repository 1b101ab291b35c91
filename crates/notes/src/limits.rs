//! The sizes that notes and requests are bound to.

/// The largest note, in bytes.
pub const MAX_NOTE: usize = 10 << 20;
/// The longest path of a note, in bytes.
pub const MAX_PATH: usize = 1024;
/// The longest name in a path, in bytes; the kernel's limit.
pub const MAX_NAME: usize = 255;
/// The most folders that a note may be nested in.
pub const MAX_DEPTH: usize = 32;
/// The longest query of a search and the longest pattern, in characters.
pub const MAX_QUERY: usize = 1024;
/// Search results if the request does not say how many.
pub const DEFAULT_RESULTS: usize = 20;
/// The most results of one search.
pub const MAX_RESULTS: usize = 1000;
/// The most entries of one listing.
pub const MAX_LISTED: usize = 10_000;
/// The most notes of one `batch_read`.
pub const MAX_BATCH: usize = 10;
/// The most bytes of content that one `batch_read` returns.
pub const MAX_BATCH_BYTES: usize = 16 << 20;
/// Front matter longer than this, in bytes, is not front matter.
pub const MAX_FRONT_MATTER: usize = 256 << 10;
/// How deeply front matter may be nested.
pub const MAX_YAML_DEPTH: usize = 32;
/// The most values of front matter, counting those that aliases repeat.
pub const MAX_YAML_VALUES: usize = 20_000;
/// The longest link, in bytes.
pub const MAX_LINK: usize = 1024;
/// The most links and tags of one note that are indexed.
pub const MAX_INDEXED: usize = 20_000;
/// The longest tag, in bytes.
pub const MAX_TAG: usize = 255;
/// The most notes and links of one graph.
pub const MAX_GRAPH: usize = 100_000;
/// The most versions of one note that a history returns.
pub const MAX_HISTORY: usize = 1000;
