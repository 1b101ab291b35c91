//! Finds files by name, kind, size, time, depth, tag and metadata.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use agentiso_store::{Node, NodeKind, StoreError, Time, TreePath, Visit, walk};
use globset::{GlobBuilder, GlobMatcher};

use super::stat::{Stat, stat_node};
use super::view::View;
use crate::VfsError;

/// What to look for. Everything must match.
#[derive(Clone, Debug)]
pub struct FindQuery {
    /// Where to look.
    pub path: TreePath,
    /// A pattern for the name, with `*`, `?`, `[...]` and `{a,b}`.
    pub name: Option<String>,
    /// What it is.
    pub kind: Option<NodeKind>,
    /// Smallest size of a file.
    pub min_size: Option<u64>,
    /// Largest size of a file.
    pub max_size: Option<u64>,
    /// Modified at this time or later.
    pub newer: Option<Time>,
    /// Modified before this time.
    pub older: Option<Time>,
    /// Levels below the path; 1 for its entries alone.
    pub depth: Option<usize>,
    /// A tag that it has.
    pub tag: Option<String>,
    /// A key of its metadata, and perhaps its value.
    pub metadata: Option<(String, Option<String>)>,
    /// Most results that are returned.
    pub limit: usize,
}

impl Default for FindQuery {
    fn default() -> Self {
        Self {
            path: TreePath::root(),
            name: None,
            kind: None,
            min_size: None,
            max_size: None,
            newer: None,
            older: None,
            depth: None,
            tag: None,
            metadata: None,
            limit: 100,
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Found {
    /// In the order of their paths; no more than the limit.
    pub list: Vec<Stat>,
    /// How many there are.
    pub total: u64,
}

/// Compiles a pattern for names. A pattern that cannot be used is an error.
pub(super) fn name_pattern(pattern: &str) -> Result<GlobMatcher, VfsError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| VfsError::invalid(format!("the pattern {pattern:?}"), error.kind()))
}

pub(super) fn matches_name(pattern: &GlobMatcher, path: &TreePath) -> bool {
    path.split().is_some_and(|(_, name)| pattern.is_match(Path::new(OsStr::from_bytes(name))))
}

impl View {
    /// Finds what matches a query. The path itself is not a result.
    pub fn find(&self, query: &FindQuery) -> Result<Found, VfsError> {
        let pattern = query.name.as_deref().map(name_pattern).transpose()?;
        let (start, node) = self.node(&query.path, true)?;
        let Node::Directory(tree) = node else { return Err(VfsError::NotADirectory { path: start }) };
        let mut found = Found::default();
        let mut each = |below: &TreePath, node: &Node| -> Result<(), StoreError> {
            if below.is_root() || query.depth.is_some_and(|depth| below.depth() > depth) {
                return Ok(());
            }
            let path = below.below(&start);
            if pattern.as_ref().is_some_and(|pattern| !matches_name(pattern, &path))
                || query.kind.is_some_and(|kind| kind != node.kind())
                || !self.is_annotated(query, &path)
            {
                return Ok(());
            }
            let stat = stat_node(&self.store, path, node).map_err(into_store)?;
            if is_in_bounds(query, &stat) {
                found.total += 1;
                if found.list.len() < query.limit {
                    found.list.push(stat);
                }
            }
            Ok(())
        };
        walk(&self.store, tree, |below, visit| match visit {
            Visit::Directory { tree, .. } => each(below, &Node::Directory(tree)),
            Visit::Other(node) => each(below, node),
        })?;
        Ok(found)
    }

    fn is_annotated(&self, query: &FindQuery, path: &TreePath) -> bool {
        if query.tag.is_none() && query.metadata.is_none() {
            return true;
        }
        let Some(annotation) = self.annotations.get(path) else { return false };
        query.tag.as_ref().is_none_or(|tag| annotation.tags.contains(tag))
            && query.metadata.as_ref().is_none_or(|(key, value)| {
                annotation
                    .metadata
                    .get(key)
                    .is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
            })
    }
}

fn is_in_bounds(query: &FindQuery, stat: &Stat) -> bool {
    let has_size = query.min_size.is_some() || query.max_size.is_some();
    (!has_size || stat.kind == NodeKind::File)
        && query.min_size.is_none_or(|min| stat.size >= min)
        && query.max_size.is_none_or(|max| stat.size <= max)
        && query.newer.is_none_or(|time| stat.mtime >= time)
        && query.older.is_none_or(|time| stat.mtime < time)
}

/// Reading a node fails only because of the store.
fn into_store(error: VfsError) -> StoreError {
    match error {
        VfsError::Store(error) => error,
        other => StoreError::Damaged { what: "a directory".to_owned(), reason: other.to_string() },
    }
}
