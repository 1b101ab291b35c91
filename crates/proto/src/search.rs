//! Requests to find files, and lines in files.

use serde::{Deserialize, Serialize};

use crate::message::{FileKind, RawPath};

/// Maximum number of entries or matches of one search.
pub const MAX_FOUND: u32 = 10_000;
/// Maximum number of context lines before and after a match.
pub const MAX_CONTEXT: u8 = 50;
/// Longer lines are truncated.
pub const MAX_LINE: usize = 2048;
/// Longer globs and patterns are rejected.
pub const MAX_PATTERN: usize = 4096;

/// Finds the files and directories below a directory whose path matches.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Find {
    /// The directory to search.
    pub root: RawPath,
    /// `*` and `?` match within a name, `**` matches across directories, `[..]` is a character class, `{a,b}` an
    /// alternative. Matched against the whole path relative to the root.
    pub glob: String,
    /// Maximum number of entries, at most [`MAX_FOUND`].
    pub max: u32,
    /// Includes names that begin with a dot, and everything below such directories.
    pub hidden: bool,
}

/// A file or directory that was found.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FoundEntry {
    /// Path relative to the root, without a leading slash.
    pub path: RawPath,
    /// Type of the file; a symbolic link is not followed.
    pub kind: FileKind,
    /// Size in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Modification time in nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// Finds matching lines in text files.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grep {
    /// A directory, or a single file.
    pub root: RawPath,
    /// A regular expression, matched against each line.
    pub pattern: String,
    /// Treats the pattern as plain text.
    pub fixed: bool,
    /// Ignores the case of letters.
    pub ignore_case: bool,
    /// Only searches files whose path matches, as in [`Find::glob`]. Without a slash it is matched against the name.
    pub glob: Option<String>,
    /// Maximum number of matches, at most [`MAX_FOUND`].
    pub max_matches: u32,
    /// Maximum number of matches per file.
    pub max_per_file: Option<u32>,
    /// Lines before and after each match, at most [`MAX_CONTEXT`].
    pub context: u8,
    /// Includes files whose name begins with a dot, and everything below such directories.
    pub hidden: bool,
}

/// A matching line. Lines have no end-of-line bytes and at most [`MAX_LINE`] bytes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrepMatch {
    /// Path relative to the root; empty if the root is the file itself.
    pub path: RawPath,
    /// Line number, counting from 1.
    pub line_number: u64,
    /// The line without its end-of-line bytes.
    pub line: Vec<u8>,
    /// Lines before the match, in order.
    pub before: Vec<Vec<u8>>,
    /// Lines after the match.
    pub after: Vec<Vec<u8>>,
}

/// Summary of a search in files.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrepSummary {
    /// Number of text files searched.
    pub files_searched: u32,
    /// Number of files skipped because they are too large.
    pub files_too_large: u32,
    /// There may be more matches than were sent.
    pub truncated: bool,
}
