//! Versions of notes.

use agentiso_store::{Content, Lease, ObjectId, Root, read_content, store_bytes};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema::History;
use crate::error::NotesError;
use crate::etag::Etag;
use crate::limits::{MAX_HISTORY, MAX_NOTE};

/// What led to a version.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum VersionAction {
    /// Created, overwritten, appended to, or edited by section.
    Write,
    /// A key of the front matter was edited.
    FrontMatter,
    /// A tag was added or removed.
    Tags,
    /// Text was replaced.
    Replace,
    /// Removed.
    Delete,
    /// Moved, from or to this path.
    Move,
    /// Links to a moved note were rewritten.
    Relink,
    /// An earlier version was restored.
    Undo,
    /// Changed by another program, such as an editor.
    Outside,
}

impl VersionAction {
    fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::FrontMatter => "front_matter",
            Self::Tags => "tags",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::Relink => "relink",
            Self::Undo => "undo",
            Self::Outside => "outside",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Write,
            Self::FrontMatter,
            Self::Tags,
            Self::Replace,
            Self::Delete,
            Self::Move,
            Self::Relink,
            Self::Undo,
            Self::Outside,
        ];
        all.into_iter().find(|action| action.name() == text)
    }
}

/// A content in the store.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "StoredText", into = "StoredText")]
pub(crate) struct Stored {
    pub(crate) etag: Etag,
    size: u64,
    content: Content,
}

impl Stored {
    pub(super) fn root(self) -> Root {
        Root::Content(self.content)
    }
}

/// The same as text.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct StoredText {
    etag: Etag,
    size: u64,
    kind: i64,
    content: String,
}

impl From<Stored> for StoredText {
    fn from(stored: Stored) -> Self {
        let (kind, id) = parts(stored.content);
        let content = id.map(|id| id.to_string()).unwrap_or_default();
        Self { etag: stored.etag, size: stored.size, kind, content }
    }
}

impl TryFrom<StoredText> for Stored {
    type Error = &'static str;

    fn try_from(text: StoredText) -> Result<Self, Self::Error> {
        let id = ObjectId::from_hex(&text.content);
        let content = content_of(text.kind, id).ok_or("not a content of the store")?;
        Ok(Self { etag: text.etag, size: text.size, content })
    }
}

fn parts(content: Content) -> (i64, Option<ObjectId>) {
    match content {
        Content::Empty => (0, None),
        Content::Blob(id) => (1, Some(id)),
        Content::Chunked(id) => (2, Some(id)),
    }
}

fn content_of(kind: i64, id: Option<ObjectId>) -> Option<Content> {
    match (kind, id) {
        (0, _) => Some(Content::Empty),
        (1, Some(id)) => Some(Content::Blob(id)),
        (2, Some(id)) => Some(Content::Chunked(id)),
        _ => None,
    }
}

/// A version of a note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Version {
    /// Versions of all notes are numbered in the order in which they were made.
    pub id: u64,
    /// The path at that time.
    pub path: String,
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Who made it, if that is known.
    pub author: Option<String>,
    /// What led to it.
    pub action: VersionAction,
    pub(crate) stored: Option<Stored>,
    /// Where the note was before, if it was moved here.
    pub moved_from: Option<String>,
    /// Where the note went, if it was moved away.
    pub moved_to: Option<String>,
    /// The version that an undo went back to.
    pub restores: Option<u64>,
}

impl Version {
    /// The etag; nothing if the note did not exist from then on.
    pub fn etag(&self) -> Option<Etag> {
        self.stored.map(|stored| stored.etag)
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.stored.map_or(0, |stored| stored.size)
    }
}

/// A version to be recorded.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct NewVersion {
    pub(crate) path: String,
    pub(crate) author: Option<String>,
    pub(crate) action: VersionAction,
    pub(crate) stored: Option<Stored>,
    pub(crate) moved_from: Option<String>,
    pub(crate) moved_to: Option<String>,
    pub(crate) restores: Option<u64>,
}

impl NewVersion {
    pub(crate) fn new(path: &str, action: VersionAction, stored: Option<Stored>) -> Self {
        Self {
            path: path.to_owned(),
            author: None,
            action,
            stored,
            moved_from: None,
            moved_to: None,
            restores: None,
        }
    }
}

const COLUMNS: &str =
    "id, path, at_ms, author, action, etag, size, kind, content, moved_from, moved_to, restores";

fn read(row: &rusqlite::Row<'_>) -> Result<Version, rusqlite::Error> {
    let damaged =
        |column| rusqlite::Error::InvalidColumnType(column, String::new(), rusqlite::types::Type::Blob);
    let number = |column| row.get::<_, Option<i64>>(column).map(|value| value.map(i64::cast_unsigned));
    let etag: Option<Vec<u8>> = row.get(5)?;
    let stored = match etag {
        None => None,
        Some(etag) => {
            let etag = Etag::from_slice(&etag).ok_or_else(|| damaged(5))?;
            let id: Option<[u8; ObjectId::LEN]> = row.get(8)?;
            let content = content_of(row.get(7)?, id.map(ObjectId::from_bytes)).ok_or_else(|| damaged(8))?;
            Some(Stored { etag, size: number(6)?.unwrap_or_default(), content })
        }
    };
    Ok(Version {
        id: number(0)?.unwrap_or_default(),
        path: row.get(1)?,
        at_ms: row.get(2)?,
        author: row.get(3)?,
        action: VersionAction::parse(row.get_ref(4)?.as_str()?).ok_or_else(|| damaged(4))?,
        stored,
        moved_from: row.get(9)?,
        moved_to: row.get(10)?,
        restores: number(11)?,
    })
}

pub(super) fn insert(
    transaction: &Transaction<'_>,
    version: &NewVersion,
    at_ms: i64,
) -> Result<(), rusqlite::Error> {
    let (kind, id) = version.stored.map_or((0, None), |stored| parts(stored.content));
    transaction
        .prepare_cached(
            "INSERT INTO version (path, at_ms, author, action, etag, size, kind, content, moved_from, moved_to, restores)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            version.path,
            at_ms,
            version.author,
            version.action.name(),
            version.stored.as_ref().map(|stored| stored.etag.as_bytes()),
            version.stored.map_or(0, |stored| stored.size).cast_signed(),
            kind,
            id.as_ref().map(|id| id.as_bytes().as_slice()),
            version.moved_from,
            version.moved_to,
            version.restores.map(u64::cast_signed),
        ])?;
    Ok(())
}

fn latest(connection: &Connection, path: &str) -> Result<Option<Version>, rusqlite::Error> {
    let sql = format!("SELECT {COLUMNS} FROM version WHERE path = ?1 ORDER BY id DESC LIMIT 1");
    connection.prepare_cached(&sql)?.query_row([path], read).optional()
}

pub(super) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

impl History {
    /// Puts contents into the store. They are kept until the lease is dropped; record them first.
    pub(crate) fn put(&self, contents: &[&[u8]]) -> Result<(Vec<Stored>, Lease), NotesError> {
        let session = self.store.begin()?;
        let mut stored = Vec::with_capacity(contents.len());
        for bytes in contents {
            let content = store_bytes(&session, bytes)?;
            stored.push(Stored { etag: Etag::of(bytes), size: bytes.len() as u64, content });
        }
        let roots: Vec<Root> = stored.iter().map(|stored| stored.root()).collect();
        let lease = session.commit(&roots)?;
        Ok((stored, lease))
    }

    /// The contents of all versions.
    pub(super) fn contents(&self) -> Result<Vec<Root>, NotesError> {
        let sql = format!("SELECT {COLUMNS} FROM version WHERE etag IS NOT NULL");
        self.database.with(|connection| {
            let mut select = connection.prepare(&sql)?;
            let mut rows = select.query([])?;
            let mut roots = std::collections::HashSet::new();
            while let Some(row) = rows.next()? {
                roots.extend(read(row)?.stored.map(Stored::root));
            }
            Ok(roots.into_iter().collect())
        })
    }

    /// Records versions.
    pub(crate) fn record(&self, versions: &[NewVersion]) -> Result<(), NotesError> {
        self.database.with(|connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let at_ms = now_ms();
            versions.iter().try_for_each(|version| insert(&transaction, version, at_ms))?;
            transaction.commit()
        })
    }

    /// The content of a stored version.
    pub(crate) fn content(&self, stored: &Stored) -> Result<Vec<u8>, NotesError> {
        Ok(read_content(&self.store, stored.content, stored.size, MAX_NOTE)?)
    }

    /// The last version of a path.
    pub(crate) fn latest(&self, path: &str) -> Result<Option<Version>, NotesError> {
        self.database.with(|connection| latest(connection, path))
    }

    /// A version of any note.
    pub(crate) fn version(&self, id: u64) -> Result<Option<Version>, NotesError> {
        let sql = format!("SELECT {COLUMNS} FROM version WHERE id = ?1");
        self.database.with(|connection| {
            connection.prepare_cached(&sql)?.query_row([id.cast_signed()], read).optional()
        })
    }

    /// The versions of a note, latest first, through its moves. `before` leaves out it and later ones.
    pub(crate) fn versions(
        &self,
        path: &str,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Version>, NotesError> {
        let limit = limit.clamp(1, MAX_HISTORY);
        self.database.with(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM version WHERE path = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3"
            );
            let mut select = connection.prepare_cached(&sql)?;
            let mut found: Vec<Version> = Vec::new();
            let (mut path, mut below) = (path.to_owned(), before.map_or(i64::MAX, u64::cast_signed));
            // Each turn ends at a move to the path, which is followed to where the note was.
            while found.len() < limit {
                let rows = select.query_map(params![path, below, (limit - found.len() + 1) as i64], read)?;
                let mut origin = None;
                for version in rows {
                    let version = version?;
                    below = version.id.cast_signed();
                    // The line that says where the note went is part of the move that was followed.
                    let is_departure = version.moved_to.is_some()
                        && found
                            .last()
                            .is_some_and(|later| later.moved_from.as_deref() == Some(&*version.path));
                    if is_departure {
                        continue;
                    }
                    let moved_from = version.moved_from.clone();
                    found.push(version);
                    if moved_from.is_some() {
                        origin = moved_from;
                        break;
                    }
                }
                match origin {
                    Some(origin) => path = origin,
                    None => break,
                }
            }
            found.truncate(limit);
            Ok(found)
        })
    }
}
