//! Searches.

use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params_from_iter};

use super::query::{Query, words};
use super::schema::Index;
use crate::error::NotesError;
use crate::etag::Etag;
use crate::limits::{MAX_QUERY, MAX_RESULTS};
use crate::path::FolderPath;
use crate::scope::Scope;

/// Weights of the columns: name, headings, tags, body.
const RANK: &str = "bm25(words, 8.0, 4.0, 4.0, 1.0)";
/// Memory of a compiled pattern.
const MAX_PATTERN: usize = 1 << 20;
/// After this time a search through all texts stops and says so.
const PATIENCE: Duration = Duration::from_secs(5);
/// Lines before and behind the found one.
const CONTEXT: usize = 2;
/// A line, or a context, is cut at this number of characters.
const MAX_LINE: usize = 500;

/// What is searched for.
#[derive(Clone, Debug)]
pub(crate) struct Search<'s> {
    pub(crate) query: &'s str,
    pub(crate) is_regex: bool,
    pub(crate) folder: Option<&'s FolderPath>,
    pub(crate) tag: Option<&'s str>,
    pub(crate) limit: usize,
    pub(crate) scope: &'s Scope,
}

/// How the results were found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SearchMode {
    /// Every word occurs.
    All,
    /// Some words occur.
    Any,
    /// The text occurs as it is, perhaps within words.
    Substring,
    /// The pattern matches.
    Regex,
    /// Filters alone.
    Filter,
}

/// A found note or, for patterns, a found line.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    pub(crate) path: String,
    pub(crate) title: Option<String>,
    pub(crate) etag: Option<Etag>,
    pub(crate) score: f64,
    /// From 1.
    pub(crate) line_number: usize,
    pub(crate) line: String,
    pub(crate) context: String,
}

/// The results of a search.
#[derive(Clone, Debug)]
pub(crate) struct Searched {
    pub(crate) mode: SearchMode,
    pub(crate) hits: Vec<Hit>,
    /// Whether there may be more results.
    pub(crate) is_truncated: bool,
}

/// A note that matches, before its text is looked at.
struct Candidate {
    id: i64,
    path: String,
    title: Option<String>,
    etag: Option<Etag>,
    score: f64,
}

impl Index {
    /// Searches the texts of notes.
    pub(crate) fn search(&self, search: &Search<'_>) -> Result<Searched, NotesError> {
        if search.query.chars().count() > MAX_QUERY {
            return Err(NotesError::invalid(
                "query",
                format_args!("it is longer than {MAX_QUERY} characters"),
            ));
        }
        let limit = search.limit.clamp(1, MAX_RESULTS);
        if search.is_regex {
            let regex = compile(search.query)?;
            let filter = Filter::new(search, &Query::default());
            return self.lines(&filter, limit, SearchMode::Regex, &|line| regex.is_match(line));
        }
        let query = Query::parse(search.query);
        let filter = Filter::new(search, &query);
        for (is_any, mode) in [(false, SearchMode::All), (true, SearchMode::Any)] {
            let Some(expression) = query.expression(is_any) else { break };
            let found = self.words(&expression, &filter, limit, &query)?;
            if !found.0.is_empty() {
                return Ok(Searched { mode, hits: found.0, is_truncated: found.1 });
            }
        }
        let literal = search.query.trim().to_lowercase();
        if query.included().next().is_none()
            && query.tags.is_empty()
            && query.folders.is_empty()
            && search.tag.is_none()
        {
            if literal.is_empty() {
                return Err(NotesError::invalid("query", "it is empty"));
            }
            return self.lines(&filter, limit, SearchMode::Substring, &|line| {
                line.to_lowercase().contains(&literal)
            });
        }
        if query.included().next().is_none() {
            let (hits, is_truncated) = self.filtered(&filter, limit)?;
            return Ok(Searched { mode: SearchMode::Filter, hits, is_truncated });
        }
        if !query.tags.is_empty() || !query.folders.is_empty() {
            return Ok(Searched { mode: SearchMode::Any, hits: Vec::new(), is_truncated: false });
        }
        self.lines(&filter, limit, SearchMode::Substring, &|line| line.to_lowercase().contains(&literal))
    }

    /// Notes in which words occur, best first.
    fn words(
        &self,
        expression: &str,
        filter: &Filter,
        limit: usize,
        query: &Query,
    ) -> Result<(Vec<Hit>, bool), NotesError> {
        self.database.with(|connection| {
            let sql = format!(
                "SELECT note.id, note.path, note.title, note.etag, {RANK} AS score FROM words
                 JOIN note ON note.id = words.rowid WHERE words MATCH ? {} ORDER BY score, note.path LIMIT ?",
                filter.sql
            );
            let mut values = vec![Sql::from(expression.to_owned())];
            values.extend(filter.values.iter().cloned());
            // Negative: better matches have lower ranks.
            candidates(connection, &sql, values, limit, |candidate, text| best_line(candidate, text, query))
        })
    }

    /// Notes that pass the filters, latest first.
    fn filtered(&self, filter: &Filter, limit: usize) -> Result<(Vec<Hit>, bool), NotesError> {
        self.database.with(|connection| {
            let sql = format!(
                "SELECT note.id, note.path, note.title, note.etag, 0.0 FROM note WHERE is_note {}
                 ORDER BY modified_ns DESC, path LIMIT ?",
                filter.sql
            );
            candidates(connection, &sql, filter.values.clone(), limit, |candidate, text| {
                hit(candidate, text, 1)
            })
        })
    }

    /// Lines that match, in the order of their notes' paths.
    fn lines(
        &self,
        filter: &Filter,
        limit: usize,
        mode: SearchMode,
        matches: &dyn Fn(&str) -> bool,
    ) -> Result<Searched, NotesError> {
        let deadline = Instant::now() + PATIENCE;
        self.database.with(|connection| {
            let sql = format!(
                "SELECT note.id, note.path, note.title, note.etag, body.text FROM note JOIN body ON body.id = note.id
                 WHERE is_note {} ORDER BY note.path",
                filter.sql
            );
            let mut select = connection.prepare_cached(&sql)?;
            let mut rows = select.query(params_from_iter(&filter.values))?;
            let mut searched = Searched { mode, hits: Vec::new(), is_truncated: false };
            while let Some(row) = rows.next()? {
                let text = row.get_ref(4)?.as_str()?;
                for (number, line) in (1..).zip(text.lines()) {
                    if !matches(line) {
                        continue;
                    }
                    if searched.hits.len() == limit {
                        searched.is_truncated = true;
                        return Ok(searched);
                    }
                    let candidate = candidate(row, 0.0)?;
                    searched.hits.push(hit(candidate, text, number));
                }
                if Instant::now() > deadline {
                    searched.is_truncated = true;
                    return Ok(searched);
                }
            }
            Ok(searched)
        })
    }
}

fn candidate(row: &rusqlite::Row<'_>, score: f64) -> Result<Candidate, rusqlite::Error> {
    let etag: Option<Vec<u8>> = row.get(3)?;
    let etag = etag.as_deref().and_then(Etag::from_slice);
    Ok(Candidate { id: row.get(0)?, path: row.get(1)?, title: row.get(2)?, etag, score })
}

fn candidates(
    connection: &Connection,
    sql: &str,
    mut values: Vec<Sql>,
    limit: usize,
    hit: impl Fn(Candidate, &str) -> Hit,
) -> Result<(Vec<Hit>, bool), rusqlite::Error> {
    values.push(Sql::from(limit as i64 + 1));
    let mut select = connection.prepare_cached(sql)?;
    let found = select.query_map(params_from_iter(values), |row| {
        let rank: f64 = row.get(4)?;
        candidate(row, -rank)
    })?;
    let mut found: Vec<Candidate> = found.collect::<Result<_, _>>()?;
    let is_truncated = found.len() > limit;
    found.truncate(limit);
    let mut hits = Vec::with_capacity(found.len());
    for candidate in found {
        let mut text = connection.prepare_cached("SELECT text FROM body WHERE id = ?1")?;
        let mut rows = text.query([candidate.id])?;
        match rows.next()? {
            Some(row) => hits.push(hit(candidate, row.get_ref(0)?.as_str()?)),
            None => hits.push(hit(candidate, "")),
        }
    }
    Ok((hits, is_truncated))
}

/// The line with most of the terms; the first of several.
fn best_line(candidate: Candidate, text: &str, query: &Query) -> Hit {
    let mut best = (0, 1);
    let wanted = query.included().count();
    for (number, line) in (1..).zip(text.lines()) {
        let found = words(line);
        let count = query
            .included()
            .filter(|term| {
                found.windows(term.words.len()).any(|window| {
                    match (term.is_prefix, window.split_last(), term.words.split_last()) {
                        (true, Some((last, before)), Some((prefix, others))) => {
                            before == others && last.starts_with(prefix.as_str())
                        }
                        _ => window == &*term.words,
                    }
                })
            })
            .count();
        if count > best.0 {
            best = (count, number);
            if count == wanted {
                break;
            }
        }
    }
    hit(candidate, text, best.1)
}

fn hit(candidate: Candidate, text: &str, line_number: usize) -> Hit {
    let Candidate { path, title, etag, score, .. } = candidate;
    let first = line_number.saturating_sub(CONTEXT + 1);
    let around = text.lines().skip(first).take(line_number - first + CONTEXT).map(cut);
    let context = around.collect::<Vec<_>>().join("\n");
    let line = text.lines().nth(line_number - 1).map(cut).unwrap_or_default().to_owned();
    Hit { path, title, etag, score, line_number, line, context }
}

fn cut(line: &str) -> &str {
    line.char_indices().nth(MAX_LINE).map_or(line, |(at, _)| line.get(..at).unwrap_or(line))
}

pub(crate) fn compile(pattern: &str) -> Result<Regex, NotesError> {
    if pattern.is_empty() {
        return Err(NotesError::invalid("pattern", "it is empty"));
    }
    if pattern.chars().count() > MAX_QUERY {
        return Err(NotesError::invalid("pattern", format_args!("it is longer than {MAX_QUERY} characters")));
    }
    let built =
        RegexBuilder::new(pattern).size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN).nest_limit(50).build();
    built.map_err(|error| NotesError::invalid("pattern", error))
}

/// Conditions on a note, as SQL.
struct Filter {
    sql: String,
    values: Vec<Sql>,
}

impl Filter {
    fn new(search: &Search<'_>, query: &Query) -> Self {
        let mut filter = Self { sql: String::new(), values: Vec::new() };
        let folders = search.folder.into_iter().chain(&query.folders);
        folders.for_each(|folder| filter.within(std::iter::once(folder)));
        if !search.scope.is_everything() {
            filter.within(search.scope.visible());
        }
        let tags = search.tag.map(|tag| tag.trim_start_matches('#').to_lowercase());
        for tag in tags.into_iter().chain(query.tags.iter().cloned()) {
            // A tag includes those nested in it.
            filter.sql.push_str(
                " AND note.id IN (SELECT note FROM tag WHERE folded = ? OR (folded >= ? AND folded < ?))",
            );
            filter.values.extend([tag.clone(), format!("{tag}/"), format!("{tag}0")].map(Sql::from));
        }
        filter
    }

    /// Requires the path to be one of these folders or inside it.
    fn within<'f>(&mut self, folders: impl Iterator<Item = &'f FolderPath>) {
        let mut conditions = vec!["0"];
        for folder in folders {
            if folder.as_str().is_empty() {
                return;
            }
            conditions.push("note.path = ? OR (note.path >= ? AND note.path < ?)");
            // "0" is the character behind "/".
            self.values
                .extend([folder.to_string(), format!("{folder}/"), format!("{folder}0")].map(Sql::from));
        }
        self.sql.push_str(&format!(" AND ({})", conditions.join(" OR ")));
    }
}

pub(super) fn within(scope: &Scope) -> (String, Vec<Sql>) {
    let mut filter = Filter { sql: String::new(), values: Vec::new() };
    if !scope.is_everything() {
        filter.within(scope.visible());
    }
    (filter.sql, filter.values)
}
