//! Paths of notes and folders: relative, checked, never leading out of the directory.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::error::NotesError;
use crate::limits::{MAX_DEPTH, MAX_NAME, MAX_PATH};

/// The path of a file below the directory of notes, for example `projects/plan.md`. Names that begin with a dot are
/// refused: they belong to Obsidian, git and other programs, some of which execute what is in them.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct NotePath(String);

impl NotePath {
    /// Checks a path.
    pub fn parse(text: &str) -> Result<Self, NotesError> {
        match check(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(reason) => Err(NotesError::InvalidPath { path: text.to_owned(), reason }),
        }
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }

    /// The folder, without a trailing slash; empty for the directory itself.
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// The folders from the top down.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(at, _)| self.0.get(..at).unwrap_or_default())
    }
}

fn check(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > MAX_PATH {
        return Err("it is longer than 1024 bytes");
    }
    if text.starts_with('/') {
        return Err("it must be relative to the directory of notes");
    }
    if text.split('/').count() > MAX_DEPTH {
        return Err("it is nested too deeply");
    }
    text.split('/').try_for_each(check_name)
}

fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("it has an empty name between two slashes, or a slash at its end"),
        ".." => Err("it must not contain \"..\""),
        _ if name.starts_with('.') => Err("names that begin with a dot are reserved for other programs"),
        _ if name.len() > MAX_NAME => Err("one of its names is longer than 255 bytes"),
        _ if name.contains('\\') => Err("it must not contain a backslash"),
        _ if name.chars().any(is_deceptive) => Err("it contains a control character"),
        _ => Ok(()),
    }
}

/// Control characters, and those that reorder or hide text.
fn is_deceptive(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

impl TryFrom<String> for NotePath {
    type Error = NotesError;

    fn try_from(text: String) -> Result<Self, NotesError> {
        Self::parse(&text)
    }
}

impl From<NotePath> for String {
    fn from(path: NotePath) -> Self {
        path.0
    }
}

impl fmt::Display for NotePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for NotePath {
    fn schema_name() -> Cow<'static, str> {
        "NotePath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PATH,
            "description": "Path of a note, relative to the directory of notes.",
            "examples": ["projects/plan.md"],
        })
    }
}

/// A folder below the directory of notes; empty for the directory itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct FolderPath(String);

impl FolderPath {
    /// The directory of notes itself.
    pub const fn root() -> Self {
        Self(String::new())
    }

    /// Checks a path; one slash at its end does not count.
    pub fn parse(text: &str) -> Result<Self, NotesError> {
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Ok(Self::root());
        }
        NotePath::parse(text).map(|path| Self(path.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a file or folder is this folder or inside it.
    pub fn contains(&self, path: &str) -> bool {
        self.0.is_empty()
            || path == self.0
            || path.strip_prefix(&*self.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The path of an entry of this folder.
    pub(crate) fn join(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }
}

impl TryFrom<String> for FolderPath {
    type Error = NotesError;

    fn try_from(text: String) -> Result<Self, NotesError> {
        Self::parse(&text)
    }
}

impl From<FolderPath> for String {
    fn from(path: FolderPath) -> Self {
        path.0
    }
}

impl fmt::Display for FolderPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for FolderPath {
    fn schema_name() -> Cow<'static, str> {
        "FolderPath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": MAX_PATH,
            "description": "A folder, relative to the directory of notes; empty for the directory itself.",
            "examples": ["projects"],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_could_lead_out_or_deceive_are_refused() {
        let long = "x".repeat(MAX_NAME + 1);
        let deep = vec!["d"; MAX_DEPTH + 1].join("/");
        let refused = [
            "",
            "/etc/passwd",
            "..",
            "a/../b",
            "../a",
            "a/..",
            "a//b",
            "a/",
            ".git/hooks/pre-commit",
            "a/.b",
            ".",
            "a\0b",
            "a\nb",
            "a\\b",
            "a\u{202e}b",
            &long,
            &deep,
        ];
        for path in refused {
            assert!(NotePath::parse(path).is_err(), "{path:?}");
        }
        for path in ["a", "a.md", "ä b/ç (1).md", "a..b/c...md", "~", "-x"] {
            assert_eq!(NotePath::parse(path).unwrap().as_str(), path);
        }
    }

    #[test]
    fn a_folder_contains_whole_names_only() {
        let folder = FolderPath::parse("teams/a/").unwrap();
        assert!(folder.contains("teams/a") && folder.contains("teams/a/x.md"));
        assert!(!folder.contains("teams/ab/x.md") && !folder.contains("teams"));
        assert!(FolderPath::root().contains("anything"));
        assert!(FolderPath::parse("..").is_err());
    }

    #[test]
    fn a_path_is_split_into_folders() {
        let path = NotePath::parse("a/b/c.md").unwrap();
        assert_eq!(path.folders().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!((path.folder(), path.name()), ("a/b", "c.md"));
    }
}
