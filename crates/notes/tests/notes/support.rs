//! A directory of notes for one test.

use std::fs;
use std::path::{Path, PathBuf};

use agentiso_core::Secret;
use agentiso_notes::*;

pub struct Place {
    pub dir: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("notes")).unwrap();
        Self { dir }
    }

    pub fn config(&self) -> NotesConfig {
        config(self.dir.path())
    }

    pub fn open(&self) -> Notes {
        Notes::open(self.config()).unwrap()
    }

    pub fn host(&self, path: &str) -> PathBuf {
        self.dir.path().join("notes").join(path)
    }

    /// Writes a file as an editor would, with a time stamp that differs from the one before.
    pub fn by_hand(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.host(path).parent().unwrap()).unwrap();
        fs::write(self.host(path), content).unwrap();
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.host(path)).unwrap()
    }
}

pub fn config(base: &Path) -> NotesConfig {
    NotesConfig::new(base.join("notes"), base.join("state"))
}

pub fn all(notes: &Notes) -> View {
    notes.view(Scope::everything(), Some("tester".to_owned()))
}

pub fn path(text: &str) -> NotePath {
    NotePath::parse(text).unwrap()
}

pub fn folder(text: &str) -> FolderPath {
    FolderPath::parse(text).unwrap()
}

pub fn write_with(
    view: &View,
    at: &str,
    content: &str,
    mode: WriteMode,
    if_match: Option<IfMatch>,
) -> Result<Written, NotesError> {
    let content = Secret::new(content.to_owned());
    view.write(&WriteNote { path: path(at), content, mode, heading: None, if_match })
}

pub fn write(view: &View, at: &str, content: &str) -> Written {
    write_with(view, at, content, WriteMode::Overwrite, None).unwrap()
}

pub fn try_read(view: &View, at: &str) -> Result<Note, NotesError> {
    view.read(&ReadNote { path: path(at), format: NoteFormat::Markdown })
}

pub fn read(view: &View, at: &str) -> Note {
    try_read(view, at).unwrap()
}

pub fn delete(view: &View, at: &str) -> Result<Deleted, NotesError> {
    view.delete(&DeleteNote { path: path(at), confirm: true, if_match: None })
}

pub fn relocate(view: &View, from: &str, to: &str) -> Result<Moved, NotesError> {
    view.relocate(&MoveNote { path: path(from), new_path: path(to), overwrite: false, if_match: None })
}

pub fn undo(view: &View, at: &str) -> Result<Undone, NotesError> {
    view.undo(&UndoNote { path: path(at), version: None, if_match: None })
}

pub fn query(text: &str) -> SearchNotes {
    SearchNotes { query: text.to_owned(), regex: false, path_prefix: None, tag: None, max_results: None }
}

pub fn found(view: &View, text: &str) -> Vec<String> {
    let results = view.search(&query(text)).unwrap().results;
    results.into_iter().map(|result| result.path.to_string()).collect()
}

pub fn backlinks(view: &View, at: &str) -> Vec<String> {
    let links = view.links(&ReadLinks { path: path(at) }).unwrap();
    links.backlinks.into_iter().map(|link| link.source).collect()
}

/// All rows of the index without their numbers, to compare two indexes.
pub fn index_of(place: &Place) -> Vec<String> {
    let connection = rusqlite::Connection::open(place.dir.path().join("state/index.db")).unwrap();
    connection
        .execute_batch("CREATE VIRTUAL TABLE IF NOT EXISTS temp.terms USING fts5vocab(main, words, instance)")
        .unwrap();
    let mut rows = Vec::new();
    for sql in [
        "SELECT path || ' ' || key || ' ' || is_note || ' ' || size || ' ' || iif(is_note, coalesce(hex(etag), '-'), '') || ' '
             || coalesce(title, '-') || ' ' || coalesce(problem, '-') FROM note",
        "SELECT path || ' body ' || text FROM body JOIN note USING (id)",
        "SELECT path || ' tag ' || folded || ' ' || tag FROM tag JOIN note ON note.id = tag.note",
        "SELECT path || ' link ' || ordinal || ' ' || is_wiki || is_embed || ' ' || target || ' ' || link.key || ' ' || line
             FROM link JOIN note ON note.id = link.note",
        "SELECT path || ' term ' || term || ' ' || col || ' ' || offset FROM temp.terms JOIN note ON note.id = doc",
    ] {
        let mut select = connection.prepare(sql).unwrap();
        let found = select.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.extend(found.map(Result::unwrap));
    }
    rows.sort();
    rows
}
