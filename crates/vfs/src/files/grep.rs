//! Searches files for lines that match a regular expression, several files at a time.

use std::num::NonZero;

use agentiso_store::{File, Node, TreePath, Visit, read_content, walk};
use regex::bytes::{Regex, RegexBuilder};

use super::find::{matches_name, name_pattern};
use super::view::View;
use crate::VfsError;

/// Files that are searched before the limit is looked at.
const BATCH: usize = 256;
/// Bytes of a line that are returned.
const MAX_LINE: usize = 2048;
/// Bytes that are searched for NUL to recognise binary files.
const PROBE: usize = 8 << 10;
const MAX_PATTERN: usize = 16 << 10;

/// What to search for.
#[derive(Clone, Debug)]
pub struct GrepQuery {
    /// A regular expression, which matches within a line.
    pub pattern: String,
    /// A directory or a file.
    pub path: TreePath,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// A pattern for the names of the files that are searched.
    pub name: Option<String>,
    /// Most matches that are returned.
    pub limit: usize,
    /// Larger files are not searched, but counted.
    pub max_file: u64,
}

impl GrepQuery {
    /// Searches everything for at most 100 lines.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            path: TreePath::root(),
            ignore_case: false,
            name: None,
            limit: 100,
            max_file: 16 << 20,
        }
    }
}

/// A line that matches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrepMatch {
    /// The file.
    pub path: TreePath,
    /// The number of the line, from 1.
    pub line: u64,
    /// The line without its end; at most 2048 bytes of it.
    pub text: Vec<u8>,
}

/// What was found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grepped {
    /// In the order of paths and lines.
    pub matches: Vec<GrepMatch>,
    /// There may be more: the limit was reached.
    pub is_truncated: bool,
    /// Files that were searched.
    pub searched: u64,
    /// Files that were not searched because they are binary.
    pub binary: u64,
    /// Files that were not searched because they are too large.
    pub too_large: u64,
    /// Files that could not be read, and why.
    pub unreadable: Vec<(TreePath, String)>,
}

enum Outcome {
    Matches(Vec<GrepMatch>),
    Binary,
    TooLarge,
    Unreadable(String),
}

impl View {
    /// Searches files for a regular expression.
    pub fn grep(&self, query: &GrepQuery) -> Result<Grepped, VfsError> {
        if query.pattern.len() > MAX_PATTERN {
            return Err(VfsError::invalid(
                "the pattern",
                format_args!("it is longer than {MAX_PATTERN} bytes"),
            ));
        }
        let regex = RegexBuilder::new(&query.pattern).case_insensitive(query.ignore_case).build();
        let regex = regex.map_err(|error| VfsError::invalid("the pattern", error))?;
        let files = self.files_to_search(query)?;
        let mut found = Grepped::default();
        for batch in files.chunks(BATCH) {
            let outcomes = self.search_batch(&regex, batch, query)?;
            for ((path, _), outcome) in batch.iter().zip(outcomes) {
                match outcome {
                    Outcome::Matches(matches) => {
                        found.searched += 1;
                        found.matches.extend(matches);
                    }
                    Outcome::Binary => found.binary += 1,
                    Outcome::TooLarge => found.too_large += 1,
                    Outcome::Unreadable(reason) => found.unreadable.push((path.clone(), reason)),
                }
            }
            if found.matches.len() > query.limit {
                found.matches.truncate(query.limit);
                found.is_truncated = true;
                break;
            }
        }
        Ok(found)
    }

    fn files_to_search(&self, query: &GrepQuery) -> Result<Vec<(TreePath, File)>, VfsError> {
        let pattern = query.name.as_deref().map(name_pattern).transpose()?;
        let (start, node) = self.node(&query.path, true)?;
        let tree = match node {
            Node::Directory(tree) => tree,
            Node::File(file) => return Ok(vec![(start, file)]),
            _ => return Err(VfsError::NotAFile { path: start }),
        };
        let mut files = Vec::new();
        walk(&self.store, tree, |below, visit| {
            if let Visit::Other(Node::File(file)) = visit
                && pattern.as_ref().is_none_or(|pattern| matches_name(pattern, below))
            {
                files.push((below.below(&start), *file));
            }
            Ok(())
        })?;
        Ok(files)
    }

    fn search_batch(
        &self,
        regex: &Regex,
        batch: &[(TreePath, File)],
        query: &GrepQuery,
    ) -> Result<Vec<Outcome>, VfsError> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(8);
        let share = batch.len().div_ceil(threads).max(1);
        let search = |part: &[(TreePath, File)]| -> Result<Vec<Outcome>, VfsError> {
            part.iter().map(|(path, file)| self.search_file(regex, path, file, query)).collect()
        };
        std::thread::scope(|scope| {
            let mut parts = batch.chunks(share);
            let own = parts.next().unwrap_or_default();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || search(part))).collect();
            let mut outcomes = search(own)?;
            for thread in others {
                let panicked = |_| Err(VfsError::invalid("the search", "a thread of it panicked"));
                outcomes.extend(thread.join().unwrap_or_else(panicked)?);
            }
            Ok(outcomes)
        })
    }

    fn search_file(
        &self,
        regex: &Regex,
        path: &TreePath,
        file: &File,
        query: &GrepQuery,
    ) -> Result<Outcome, VfsError> {
        if file.size > query.max_file {
            return Ok(Outcome::TooLarge);
        }
        let bytes = match read_content(&self.store, file.content, file.size, query.max_file as usize) {
            Ok(bytes) => bytes,
            Err(error) if error.is_damage() => return Ok(Outcome::Unreadable(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        if bytes.get(..PROBE).unwrap_or(&bytes).contains(&0) {
            return Ok(Outcome::Binary);
        }
        Ok(Outcome::Matches(matching_lines(regex, path, &bytes, query.limit)))
    }
}

fn matching_lines(regex: &Regex, path: &TreePath, bytes: &[u8], limit: usize) -> Vec<GrepMatch> {
    let mut matches = Vec::new();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        // The end of the last line is not another line.
        let is_end = line.is_empty() && line.as_ptr_range().end == bytes.as_ptr_range().end;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_end || !regex.is_match(line) {
            continue;
        }
        let text = line.get(..MAX_LINE).unwrap_or(line).to_vec();
        matches.push(GrepMatch { path: path.clone(), line: index as u64 + 1, text });
        // One more than is returned tells that there are more.
        if matches.len() > limit {
            break;
        }
    }
    matches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &str, text: &str, limit: usize) -> Vec<(u64, String)> {
        let regex = Regex::new(pattern).unwrap();
        let found = matching_lines(&regex, &TreePath::root(), text.as_bytes(), limit);
        found.into_iter().map(|found| (found.line, String::from_utf8(found.text).unwrap())).collect()
    }

    #[test]
    fn lines_are_numbered_and_have_no_ends() {
        assert_eq!(lines("b", "a\nb\r\nab", 9), [(2, "b".to_owned()), (3, "ab".to_owned())]);
        assert_eq!(lines("^$", "a\n\nb\n", 9), [(2, String::new())]);
        assert_eq!(lines("^$", "", 9), []);
        assert_eq!(lines("x", "x\nx\nx\n", 1).len(), 2);
    }
}
