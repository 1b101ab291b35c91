//! Links between notes, tags and statistics.

use rusqlite::{Connection, params_from_iter};

use super::lookup::{Resolver, key_of_path};
use super::schema::Index;
use super::search::within;
use crate::config::NotesConfig;
use crate::error::NotesError;
use crate::limits::MAX_GRAPH;
use crate::scope::Scope;

/// A link as the index has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LinkRow {
    pub(crate) source: String,
    pub(crate) target: String,
    pub(crate) is_wiki: bool,
    pub(crate) is_embed: bool,
    pub(crate) line: usize,
}

/// A link, and the path of its target if there is one.
pub(crate) type Followed = (LinkRow, Option<String>);

/// Notes with their titles, and their links.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphRows {
    pub(crate) notes: Vec<(String, Option<String>)>,
    pub(crate) links: Vec<Followed>,
    pub(crate) is_truncated: bool,
}

/// Numbers about the visible notes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) notes: u64,
    pub(crate) bytes: u64,
    /// Path, size and time of modification.
    pub(crate) recent: Vec<(String, u64, i64)>,
    /// Notes that could not be indexed, or whose front matter is invalid, and why.
    pub(crate) problems: Vec<(String, String)>,
}

const COLUMNS: &str = "note.path, link.target, link.is_wiki, link.is_embed, link.line";

fn link(row: &rusqlite::Row<'_>) -> Result<LinkRow, rusqlite::Error> {
    Ok(LinkRow {
        source: row.get(0)?,
        target: row.get(1)?,
        is_wiki: row.get(2)?,
        is_embed: row.get(3)?,
        line: usize::try_from(row.get::<_, i64>(4)?).unwrap_or_default(),
    })
}

fn select(connection: &Connection, condition: &str, value: &str) -> Result<Vec<LinkRow>, rusqlite::Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM link JOIN note ON note.id = link.note WHERE {condition} = ?1
         ORDER BY note.path, link.ordinal"
    );
    connection.prepare_cached(&sql)?.query_map([value], link)?.collect()
}

impl Index {
    /// The links of other notes, and of the note itself, that mean this file.
    pub(crate) fn backlinks(&self, config: &NotesConfig, path: &str) -> Result<Vec<LinkRow>, NotesError> {
        let key = key_of_path(config, path);
        let mut found = self.database.with(|connection| select(connection, "link.key", &key))?;
        let mut resolver = Resolver::new(self, config);
        let mut failure = None;
        found.retain(|link| match resolver.resolve(&link.source, &link.target, link.is_wiki) {
            Ok(resolved) => resolved.is_some_and(|resolved| resolved.path == path),
            Err(error) => {
                failure.get_or_insert(error);
                false
            }
        });
        failure.map_or(Ok(found), Err)
    }

    /// The notes with links that could mean this file: those with its name.
    pub(crate) fn possible_sources(
        &self,
        config: &NotesConfig,
        path: &str,
    ) -> Result<Vec<String>, NotesError> {
        let key = key_of_path(config, path);
        self.database.with(|connection| {
            let sql = "SELECT DISTINCT note.path FROM link JOIN note ON note.id = link.note WHERE link.key = ?1 ORDER BY 1";
            connection.prepare_cached(sql)?.query_map([&key], |row| row.get(0))?.collect()
        })
    }

    /// The links of a note.
    pub(crate) fn links_of(&self, config: &NotesConfig, path: &str) -> Result<Vec<Followed>, NotesError> {
        let links = self.database.with(|connection| select(connection, "note.path", path))?;
        let mut resolver = Resolver::new(self, config);
        let mut followed = Vec::with_capacity(links.len());
        for link in links {
            let target = resolver.resolve(&link.source, &link.target, link.is_wiki)?;
            followed.push((link, target.map(|target| target.path)));
        }
        Ok(followed)
    }

    /// All visible notes and the links between them.
    pub(crate) fn graph(&self, config: &NotesConfig, scope: &Scope) -> Result<GraphRows, NotesError> {
        let (filter, values) = within(scope);
        let (notes, links) = self.database.with(|connection| {
            let sql = format!(
                "SELECT path, title FROM note WHERE is_note {filter} ORDER BY path LIMIT {MAX_GRAPH} + 1"
            );
            let notes: Vec<(String, Option<String>)> = connection
                .prepare_cached(&sql)?
                .query_map(params_from_iter(&values), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            let sql = format!(
                "SELECT {COLUMNS} FROM link JOIN note ON note.id = link.note WHERE is_note {filter}
                 ORDER BY note.path, link.ordinal LIMIT {MAX_GRAPH} + 1"
            );
            let links: Vec<LinkRow> = connection
                .prepare_cached(&sql)?
                .query_map(params_from_iter(&values), link)?
                .collect::<Result<_, _>>()?;
            Ok((notes, links))
        })?;
        let is_truncated = notes.len() > MAX_GRAPH || links.len() > MAX_GRAPH;
        let mut resolver = Resolver::new(self, config);
        resolver.preload()?;
        let mut edges = Vec::with_capacity(links.len());
        for link in links.into_iter().take(MAX_GRAPH) {
            let target =
                resolver.resolve(&link.source, &link.target, link.is_wiki)?.map(|target| target.path);
            // What the caller may not see does not exist.
            let target = target.filter(|target| scope.can_read(target));
            edges.push((link, target));
        }
        Ok(GraphRows { notes: notes.into_iter().take(MAX_GRAPH).collect(), links: edges, is_truncated })
    }

    /// The tags of all visible notes, and how many notes have each.
    pub(crate) fn all_tags(&self, scope: &Scope) -> Result<Vec<(String, u64)>, NotesError> {
        let (filter, values) = within(scope);
        self.database.with(|connection| {
            let sql = format!(
                "SELECT min(tag.tag), count(*) FROM tag JOIN note ON note.id = tag.note WHERE is_note {filter}
                 GROUP BY tag.folded ORDER BY 2 DESC, tag.folded LIMIT {MAX_GRAPH}"
            );
            let rows = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()));
            connection.prepare_cached(&sql)?.query_map(params_from_iter(&values), rows)?.collect()
        })
    }

    /// Numbers about the visible notes.
    pub(crate) fn totals(&self, scope: &Scope, recent: usize) -> Result<Totals, NotesError> {
        let (filter, values) = within(scope);
        self.database.with(|connection| {
            let values = || params_from_iter(&values);
            let sql = format!("SELECT count(*), coalesce(sum(size), 0) FROM note WHERE is_note {filter}");
            let (notes, bytes): (i64, i64) =
                connection.prepare_cached(&sql)?.query_row(values(), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let sql = format!(
                "SELECT path, size, modified_ns FROM note WHERE is_note {filter}
                 ORDER BY modified_ns DESC, path LIMIT {recent}"
            );
            let read = |row: &rusqlite::Row<'_>| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned(), row.get(2)?))
            };
            let recent =
                connection.prepare_cached(&sql)?.query_map(values(), read)?.collect::<Result<_, _>>()?;
            let sql = format!(
                "SELECT path, problem FROM note WHERE problem IS NOT NULL {filter} ORDER BY path LIMIT 100"
            );
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let problems =
                connection.prepare_cached(&sql)?.query_map(values(), read)?.collect::<Result<_, _>>()?;
            Ok(Totals { notes: notes.cast_unsigned(), bytes: bytes.cast_unsigned(), recent, problems })
        })
    }

    /// A note whose name is like that of a path that does not exist.
    pub(crate) fn nearest(
        &self,
        config: &NotesConfig,
        scope: &Scope,
        path: &str,
    ) -> Result<Option<String>, NotesError> {
        let key = key_of_path(config, path);
        let (filter, values) = within(scope);
        self.database.with(|connection| {
            let sql = format!("SELECT path, key FROM note WHERE is_note {filter} ORDER BY path LIMIT 5000");
            let mut select = connection.prepare_cached(&sql)?;
            let mut rows = select.query(params_from_iter(&values))?;
            let mut best: Option<(f64, String)> = None;
            while let Some(row) = rows.next()? {
                let likeness = strsim::jaro_winkler(row.get_ref(1)?.as_str()?, &key);
                if likeness > best.as_ref().map_or(0.85, |best| best.0) {
                    best = Some((likeness, row.get(0)?));
                }
            }
            Ok(best.map(|(_, path)| path))
        })
    }
}
