//! Finding files, and lines in them.

use serde::{Deserialize, Serialize};

use crate::message::{FileKind, RawPath};

/// The most entries or matches of one search.
pub const MAX_FOUND: u32 = 10_000;
/// The most lines around a match, on each side.
pub const MAX_CONTEXT: u8 = 50;
/// A longer line is cut.
pub const MAX_LINE: usize = 2048;
/// A longer glob or pattern is refused.
pub const MAX_PATTERN: usize = 4096;

/// Asks for the files and directories below a directory whose path matches.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Find {
    /// The directory.
    pub root: RawPath,
    /// `*` and `?` stay within a name, `**` goes through directories, `[..]` is a class, `{a,b}` a choice. Compared
    /// with the whole path below the root.
    pub glob: String,
    /// The most entries; at most [`MAX_FOUND`].
    pub max: u32,
    /// Also names that begin with a dot, and what is below them.
    pub hidden: bool,
}

/// Something that was found.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FoundEntry {
    /// Below the root, without a slash in front.
    pub path: RawPath,
    /// What it is; a symbolic link is not followed.
    pub kind: FileKind,
    /// Length in bytes.
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// Last modification, nanoseconds since the epoch.
    pub modified_ns: i64,
}

/// Asks for the lines of text files that match.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Grep {
    /// A directory, or a single file.
    pub root: RawPath,
    /// A regular expression, compared with each line.
    pub pattern: String,
    /// The pattern is plain text.
    pub fixed: bool,
    /// Large and small letters are the same.
    pub ignore_case: bool,
    /// Only files whose path matches, as in [`Find::glob`]; without a slash in it, whose name does.
    pub glob: Option<String>,
    /// The most matches; at most [`MAX_FOUND`].
    pub max_matches: u32,
    /// The most matches in one file.
    pub max_per_file: Option<u32>,
    /// Lines before and after each match; at most [`MAX_CONTEXT`].
    pub context: u8,
    /// Also files whose name begins with a dot, and what is below such directories.
    pub hidden: bool,
}

/// A line that matches. Lines have no end-of-line bytes, and [`MAX_LINE`] bytes at most.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrepMatch {
    /// The file, below the root; empty if the root is the file.
    pub path: RawPath,
    /// The first line is 1.
    pub line_number: u64,
    /// The line.
    pub line: Vec<u8>,
    /// Lines before it, in order.
    pub before: Vec<Vec<u8>>,
    /// Lines after it.
    pub after: Vec<Vec<u8>>,
}

/// What a search in files came to.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct GrepSummary {
    /// Text files that were searched.
    pub files_searched: u32,
    /// Files that were not searched because they are too large.
    pub files_too_large: u32,
    /// There may be more matches than were sent.
    pub truncated: bool,
}
