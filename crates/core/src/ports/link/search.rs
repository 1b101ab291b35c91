//! Results of searches for files and for lines in them.

use super::{FoundEntry, GrepMatch};

/// The files and directories that were found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// Sorted by path.
    pub entries: Vec<FoundEntry>,
    /// There is more.
    pub truncated: bool,
}

/// The lines that were found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grepped {
    /// Sorted by path and line.
    pub matches: Vec<GrepMatch>,
    /// Text files that were searched.
    pub files_searched: u32,
    /// Files that were not searched because they are too large.
    pub files_too_large: u32,
    /// There may be more matches.
    pub truncated: bool,
}
