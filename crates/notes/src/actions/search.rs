//! `search`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::etag::Etag;
use crate::index::{Search, SearchMode};
use crate::limits::{DEFAULT_RESULTS, MAX_QUERY, MAX_RESULTS};
use crate::path::{FolderPath, NotePath};
use crate::view::View;

/// Searches the notes. Words are found in names, headings, tags and text, without regard to case and accents. If no note
/// has all of them, notes with some of them are returned.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SearchNotes {
    /// Words, `"phrases"`, `prefix*`, `-excluded`, `tag:name`, `path:folder`; or a regular expression.
    #[schemars(length(max = MAX_QUERY))]
    pub query: String,
    /// Whether the query is a regular expression, which is matched line by line.
    #[serde(default)]
    pub regex: bool,
    /// Search only in this folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_prefix: Option<FolderPath>,
    /// Search only notes with this tag, or with one nested in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// At most this many results; 20 if absent, 0 for as many as possible (1000).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_results: Option<usize>,
}

/// How results were found.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchHow {
    /// Every word occurs; best results first.
    AllWords,
    /// No note has every word: some of them occur; best results first.
    AnyWord,
    /// No note has any of the words: the query occurs as it is, perhaps within words.
    Substring,
    /// The pattern matches these lines.
    Regex,
    /// Only by tag or folder; latest first.
    Filter,
}

/// The results of a search.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SearchResults {
    /// The query.
    pub query: String,
    /// How the results were found.
    pub how: SearchHow,
    /// The number of results.
    pub result_count: usize,
    /// Whether there may be more.
    pub truncated: bool,
    /// The results.
    pub results: Vec<SearchResult>,
}

/// A found note; for patterns and substrings, a found line.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SearchResult {
    /// The note.
    pub path: NotePath,
    /// Its title, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its version.
    pub etag: Option<Etag>,
    /// The higher, the better; 0 where results are not ranked.
    pub score: f64,
    /// The line that matches best, from 1.
    pub line_number: usize,
    /// That line.
    pub line: String,
    /// That line with two before and two behind it.
    pub context: String,
}

impl View {
    /// Searches the notes.
    pub fn search(&self, request: &SearchNotes) -> Result<SearchResults, NotesError> {
        let limit = match request.max_results {
            None => DEFAULT_RESULTS,
            Some(0) => MAX_RESULTS,
            Some(limit) => limit,
        };
        let search = Search {
            query: &request.query,
            is_regex: request.regex,
            folder: request.path_prefix.as_ref(),
            tag: request.tag.as_deref(),
            limit,
            scope: &self.scope,
        };
        let mut searched = self.inner.index.search(&search)?;
        // Another program may have changed what was found.
        let mut is_outdated = false;
        for hit in &searched.hits {
            let row = self.inner.index.row(&hit.path)?;
            let stat = self.inner.directory.stat(&hit.path).ok().flatten();
            let is_same = |row: &crate::index::Row| stat.is_some_and(|stat| row.is_unchanged(&stat));
            if !row.as_ref().is_some_and(is_same) {
                let lock = self.inner.lock()?;
                is_outdated |= self.inner.refresh(&lock, &hit.path)?;
            }
        }
        if is_outdated {
            searched = self.inner.index.search(&search)?;
        }
        let how = match searched.mode {
            SearchMode::All => SearchHow::AllWords,
            SearchMode::Any => SearchHow::AnyWord,
            SearchMode::Substring => SearchHow::Substring,
            SearchMode::Regex => SearchHow::Regex,
            SearchMode::Filter => SearchHow::Filter,
        };
        let mut results = Vec::with_capacity(searched.hits.len());
        for hit in searched.hits {
            results.push(SearchResult {
                path: NotePath::parse(&hit.path)?,
                title: hit.title,
                etag: hit.etag,
                score: hit.score,
                line_number: hit.line_number,
                line: hit.line,
                context: hit.context,
            });
        }
        let truncated = searched.is_truncated;
        Ok(SearchResults {
            query: request.query.clone(),
            how,
            result_count: results.len(),
            truncated,
            results,
        })
    }
}
