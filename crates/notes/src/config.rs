//! Where the notes are, and which files are notes.

use std::path::PathBuf;

/// The configuration of a directory of notes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NotesConfig {
    /// Whether notes can be used at all.
    pub enabled: bool,
    /// The directory of notes. Created if it does not exist.
    pub path: PathBuf,
    /// The directory of the index, the history and their locks; private, and outside of `path`. Every process that uses
    /// the notes must give the same.
    pub state: PathBuf,
    /// File name extensions of notes, without the dot. Other files can be read and written as text, and linked to, but
    /// their text is not searched.
    pub extensions: Vec<String>,
    /// Names of directories that do not belong to the notes, at any depth. Names that begin with a dot never do.
    pub exclude_dirs: Vec<String>,
}

impl NotesConfig {
    /// The default configuration for a directory of notes and one for what is known about them.
    pub fn new(path: impl Into<PathBuf>, state: impl Into<PathBuf>) -> Self {
        Self {
            enabled: true,
            path: path.into(),
            state: state.into(),
            extensions: vec!["md".to_owned()],
            exclude_dirs: [".obsidian", ".trash", ".git"].map(str::to_owned).to_vec(),
        }
    }

    /// The name of a file without the extension of a note, if it has one.
    pub(crate) fn strip_extension<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (stem, extension) = name.rsplit_once('.')?;
        let is_note = self.extensions.iter().any(|known| known.eq_ignore_ascii_case(extension));
        (is_note && !stem.is_empty()).then_some(stem)
    }

    pub(crate) fn is_excluded(&self, path: &str) -> bool {
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            // The last name is that of a file.
            if names.peek().is_some() && self.exclude_dirs.iter().any(|excluded| excluded == name) {
                return true;
            }
        }
        false
    }
}
