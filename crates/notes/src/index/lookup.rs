//! Which note a link means, as Obsidian decides it: an exact path first, without regard to case, then the notes in or below
//! the folder of the link, then the shortest path.

use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Connection;

use super::schema::Index;
use crate::config::NotesConfig;
use crate::error::NotesError;

/// The name by which links find a file: lower case; without extension for notes.
pub(crate) fn key_of_path(config: &NotesConfig, path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    config.strip_extension(name).unwrap_or(name).to_lowercase()
}

/// The key of what a link may mean.
pub(super) fn key_of_target(config: &NotesConfig, target: &str) -> String {
    key_of_path(config, target.trim_end_matches('/'))
}

/// How a link was resolved, and so how it is written again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// From the folder of the note with the link.
    Relative,
    /// From the directory of notes, with a leading slash.
    Absolute,
    /// By name, or by the end of the path.
    Name,
}

/// What a link means.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) path: String,
    pub(crate) way: Way,
}

/// Resolves links, as if some files were elsewhere.
pub(crate) struct Resolver<'i> {
    index: &'i Index,
    config: &'i NotesConfig,
    known: HashMap<String, Rc<Vec<String>>>,
    removed: Option<String>,
    added: Option<String>,
}

impl<'i> Resolver<'i> {
    pub(crate) fn new(index: &'i Index, config: &'i NotesConfig) -> Self {
        Self { index, config, known: HashMap::new(), removed: None, added: None }
    }

    /// Resolves as if a file had been moved.
    pub(crate) fn after_move(index: &'i Index, config: &'i NotesConfig, from: &str, to: &str) -> Self {
        let mut resolver = Self::new(index, config);
        resolver.removed = Some(from.to_owned());
        resolver.added = Some(to.to_owned());
        resolver
    }

    /// Resolves among files that were read before, for many links.
    pub(crate) fn preload(&mut self) -> Result<(), NotesError> {
        let known = self.index.database.with(|connection| {
            let mut known: HashMap<String, Vec<String>> = HashMap::new();
            let mut select = connection.prepare_cached("SELECT key, path FROM note ORDER BY path")?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                known.entry(row.get(0)?).or_default().push(row.get(1)?);
            }
            Ok(known)
        })?;
        self.known = known.into_iter().map(|(key, paths)| (key, Rc::new(paths))).collect();
        Ok(())
    }

    fn candidates(&mut self, key: &str) -> Result<Rc<Vec<String>>, NotesError> {
        if let Some(known) = self.known.get(key) {
            return Ok(known.clone());
        }
        let mut paths = self.index.database.with(|connection| paths_of(connection, key))?;
        if let Some(removed) = &self.removed {
            paths.retain(|path| path != removed);
        }
        if let Some(added) = &self.added
            && key_of_path(self.config, added) == key
            && !paths.contains(added)
        {
            paths.push(added.clone());
            paths.sort();
        }
        let paths = Rc::new(paths);
        self.known.insert(key.to_owned(), paths.clone());
        Ok(paths)
    }

    /// What a link in the note `source` means; nothing if there is no such file.
    pub(crate) fn resolve(
        &mut self,
        source: &str,
        target: &str,
        is_wiki: bool,
    ) -> Result<Option<Resolved>, NotesError> {
        let candidates = self.candidates(&key_of_target(self.config, target))?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let folder = source.rsplit_once('/').map_or("", |(folder, _)| folder);
        let found = |path: &String, way| Some(Resolved { path: path.clone(), way });
        if let Some(absolute) = target.strip_prefix('/') {
            return Ok(self.exact(&candidates, absolute).and_then(|path| found(path, Way::Absolute)));
        }
        let is_dotted = target.starts_with("./") || target.starts_with("../");
        if is_dotted || !is_wiki {
            let relative = join(folder, target).and_then(|wanted| self.exact(&candidates, &wanted));
            if relative.is_some() || is_dotted {
                return Ok(relative.and_then(|path| found(path, Way::Relative)));
            }
        }
        if let Some(exact) = self.exact(&candidates, target) {
            return Ok(found(exact, Way::Name));
        }
        let wanted = target.to_lowercase();
        let below = folder.to_lowercase();
        let is_below = |path: &str| below.is_empty() || path.to_lowercase().starts_with(&format!("{below}/"));
        let best = candidates
            .iter()
            .filter(|path| self.ends_with(path, &wanted))
            .min_by_key(|path| (!is_below(path), path.len(), (*path).clone()));
        Ok(best.and_then(|path| found(path, Way::Name)))
    }

    /// The file of this path, with or without the extension of a note; one with the same capitals if there is one.
    fn exact<'c>(&self, candidates: &'c [String], wanted: &str) -> Option<&'c String> {
        let is =
            |path: &str, wanted: &str| path == wanted || self.config.strip_extension(path) == Some(wanted);
        let folded = wanted.to_lowercase();
        let same = candidates.iter().find(|path| is(path, wanted));
        same.or_else(|| candidates.iter().find(|path| is(&path.to_lowercase(), &folded)))
    }

    fn ends_with(&self, path: &str, wanted: &str) -> bool {
        let path = path.to_lowercase();
        let ends = |path: &str| {
            path.strip_suffix(wanted).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        ends(&path) || self.config.strip_extension(&path).is_some_and(ends)
    }

    /// The shortest form by which a link in `source` means the file: its name, or as much of the end of its path as it
    /// takes. Without the extension unless asked for.
    pub(crate) fn shortest(
        &mut self,
        source: &str,
        path: &str,
        has_extension: bool,
        is_wiki: bool,
    ) -> Result<String, NotesError> {
        let written = if has_extension { path } else { self.config.strip_extension(path).unwrap_or(path) };
        let starts: Vec<usize> = written.match_indices('/').map(|(at, _)| at + 1).collect();
        for start in starts.into_iter().rev() {
            let form = written.get(start..).unwrap_or_default();
            if self.resolve(source, form, is_wiki)?.is_some_and(|found| found.path == path) {
                return Ok(form.to_owned());
            }
        }
        Ok(written.to_owned())
    }
}

fn paths_of(connection: &Connection, key: &str) -> Result<Vec<String>, rusqlite::Error> {
    let mut select = connection.prepare_cached("SELECT path FROM note WHERE key = ?1 ORDER BY path")?;
    select.query_map([key], |row| row.get(0))?.collect()
}

/// Applies a relative path to a folder; nothing if it leads out of the directory.
fn join(folder: &str, target: &str) -> Option<String> {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop()?;
            }
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// The path of a file as seen from a folder.
pub(crate) fn relative(folder: &str, path: &str) -> String {
    let from: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    let to: Vec<&str> = path.split('/').collect();
    let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count().min(to.len().saturating_sub(1));
    let mut names = vec![".."; from.len() - common];
    names.extend(to.get(common..).unwrap_or_default());
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_lead_to_where_they_should() {
        let cases = [
            ("", "a.md"),
            ("x", "x/a.md"),
            ("x/y", "x/a.md"),
            ("x/y", "z/a.md"),
            ("x", "a.md"),
            ("a/b", "a/b/c/d.md"),
        ];
        for (folder, path) in cases {
            assert_eq!(join(folder, &relative(folder, path)).unwrap(), path, "{folder} {path}");
        }
        assert_eq!(relative("x/y", "x/a.md"), "../a.md");
        assert_eq!(join("a", "../../b"), None);
    }
}
