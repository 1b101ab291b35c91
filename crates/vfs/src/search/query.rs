//! Answers queries.

use std::collections::HashMap;

use agentiso_store::{File, Node, TreePath, Visit, walk};
use rusqlite::Connection;

use super::fill::{fill, forget_collected, key, text_of};
use super::index::TOKENIZER;
use crate::files::View;
use crate::{Vaults, VfsError};

const MAX_QUERY: usize = 4096;
/// Words of an excerpt.
const EXCERPT: usize = 24;

/// A full-text query.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Words, "phrases", prefixes*, AND, OR, NOT, NEAR: the syntax of SQLite's FTS5.
    pub query: String,
    /// Where to search.
    pub path: TreePath,
    /// Most results.
    pub limit: usize,
}

impl SearchQuery {
    /// Searches everything for at most 20 files.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), path: TreePath::root(), limit: 20 }
    }
}

/// A file that matches.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchHit {
    /// The file.
    pub path: TreePath,
    /// Text around the match, which is between `>>>>` and `<<<<`.
    pub snippet: String,
    /// The smaller, the better.
    pub rank: f64,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResults {
    /// The best first; no more than the limit.
    pub hits: Vec<SearchHit>,
    /// How many files match.
    pub total: u64,
}

impl Vaults {
    /// Searches the texts of a state. Indexes what is not indexed yet first.
    pub fn search(&self, view: &View, query: &SearchQuery) -> Result<SearchResults, VfsError> {
        if query.query.trim().is_empty() || query.query.len() > MAX_QUERY {
            return Err(VfsError::invalid("the query", format_args!("it must have 1 to {MAX_QUERY} bytes")));
        }
        let tree = view.directory(&query.path)?;
        let ranks = self.index.with(|index| {
            fill(index, &self.store, tree)?;
            ranks(index, &query.query)
        })?;
        let mut found: Vec<(f64, TreePath, File)> = Vec::new();
        if !ranks.is_empty() {
            walk(&self.store, tree, |below, visit| {
                if let Visit::Other(Node::File(file)) = visit
                    && let Some(rank) = key(file.content).and_then(|key| ranks.get(&key))
                {
                    found.push((*rank, below.below(&query.path), *file));
                }
                Ok(())
            })?;
        }
        let total = found.len() as u64;
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        found.truncate(query.limit);
        let snippets = self.snippets(&query.query, &found)?;
        let hits = found.into_iter().zip(snippets);
        let hits = hits.map(|((rank, path, _), snippet)| SearchHit { path, snippet, rank }).collect();
        Ok(SearchResults { hits, total })
    }

    /// Forgets the index. The next search makes it again.
    pub fn rebuild_search(&self) -> Result<(), VfsError> {
        self.index.discard()
    }

    /// Removes what garbage collection removed from the index, too.
    pub(crate) fn tidy_search(&self) -> Result<u64, VfsError> {
        if self.index.size() == 0 {
            return Ok(0);
        }
        self.index.with(|index| forget_collected(index, &self.store))
    }

    /// Excerpts of files, by the same rules as the index.
    fn snippets(&self, query: &str, found: &[(f64, TreePath, File)]) -> Result<Vec<String>, VfsError> {
        let memory = Connection::open_in_memory()?;
        memory.execute_batch(&format!(
            "CREATE VIRTUAL TABLE words USING fts5(body, tokenize = '{TOKENIZER}')"
        ))?;
        let mut snippets = Vec::with_capacity(found.len());
        for (id, (_, _, file)) in (1_i64..).zip(found) {
            let text = text_of(&self.store, file)?.unwrap_or_default();
            memory.execute("INSERT INTO words (rowid, body) VALUES (?1, ?2)", (id, text))?;
            let sql = format!(
                "SELECT snippet(words, 0, '>>>>', '<<<<', '...', {EXCERPT}) FROM words
                 WHERE words MATCH ?1 AND rowid = ?2"
            );
            let snippet = memory.query_row(&sql, (query, id), |row| row.get::<_, String>(0));
            snippets.push(match snippet {
                Ok(snippet) => snippet,
                Err(rusqlite::Error::QueryReturnedNoRows) => String::new(),
                Err(error) => return Err(error.into()),
            });
            memory.execute("DELETE FROM words", [])?;
        }
        Ok(snippets)
    }
}

/// The contents that match, with their ranks.
fn ranks(index: &Connection, query: &str) -> Result<HashMap<Vec<u8>, f64>, VfsError> {
    let sql = "SELECT texts.content, bm25(words) FROM words JOIN texts ON texts.id = words.rowid WHERE words MATCH ?1";
    let mut statement = index.prepare_cached(sql)?;
    let rows = statement.query_map([query], |row| Ok((row.get(0)?, row.get(1)?)));
    let collect = || rows?.collect::<rusqlite::Result<HashMap<_, _>>>();
    collect().map_err(|error| match error {
        // FTS5 reports a query that it does not understand as a plain error.
        rusqlite::Error::SqliteFailure(code, Some(message))
            if code.extended_code == rusqlite::ffi::SQLITE_ERROR =>
        {
            VfsError::invalid(format!("the query {query:?}"), message)
        }
        other => other.into(),
    })
}
