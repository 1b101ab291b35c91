//! Sessions: the clients that own workspaces.

use agentiso_core::SessionId;
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Row, named_params};

use crate::stored::{Stored, get};
use crate::{MAX_CLIENT, MetaError, Read, Session, SessionKind, Tx};

impl FromSql for Stored<SessionKind> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "mcp" => Ok(Self(SessionKind::Mcp)),
            "http" => Ok(Self(SessionKind::Http)),
            "local" => Ok(Self(SessionKind::Fleeting)),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

impl Read<'_> {
    /// Returns a session by its id.
    pub fn session(&self, id: SessionId) -> Result<Session, MetaError> {
        self.one("SELECT * FROM sessions WHERE id = ?1", [Stored(id)], read)?
            .ok_or_else(|| MetaError::missing("session", id))
    }

    /// Returns a session, or `None` if it does not exist. An error never means absence.
    pub fn session_if_known(&self, id: SessionId) -> Result<Option<Session>, MetaError> {
        self.one("SELECT * FROM sessions WHERE id = ?1", [Stored(id)], read)
    }

    /// Returns the session whose token has this hash, if any.
    pub fn session_by_token(&self, hash: &[u8; 32]) -> Result<Option<Session>, MetaError> {
        self.one("SELECT * FROM sessions WHERE token_hash = ?1", [hash], read)
    }

    /// Returns the sessions that own no workspace, least recently active first.
    pub fn sessions_without_workspaces(&self) -> Result<Vec<Session>, MetaError> {
        self.all(
            "SELECT * FROM sessions WHERE NOT EXISTS (SELECT 1 FROM settings WHERE owner = sessions.id)
             ORDER BY last_active, id",
            [],
            read,
        )
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> Result<u64, MetaError> {
        let count = self.one("SELECT count(*) FROM sessions", [], |row| row.get::<_, u32>(0))?;
        Ok(count.unwrap_or_default().into())
    }

    /// Returns the removed sessions whose files may still exist.
    pub fn ended_sessions(&self) -> Result<Vec<SessionId>, MetaError> {
        self.all("SELECT id FROM ended_sessions ORDER BY id", [], |row| get(row, "id"))
    }

    /// Returns all sessions, oldest first.
    pub fn sessions(&self) -> Result<Vec<Session>, MetaError> {
        self.all("SELECT * FROM sessions ORDER BY created, id", [], read)
    }
}

impl Tx<'_> {
    /// Adds a session.
    pub fn insert_session(&self, session: &Session) -> Result<(), MetaError> {
        MetaError::require_short("client's name", &session.client, MAX_CLIENT)?;
        self.execute(
            "INSERT INTO sessions (id, kind, client, token_hash, created, last_active)
             VALUES (:id, :kind, :client, :token_hash, :created, :last_active)",
            named_params! {
                ":id": Stored(session.id),
                ":kind": session.kind.as_str(),
                ":client": session.client,
                ":token_hash": session.token_hash,
                ":created": Stored(session.created),
                ":last_active": Stored(session.last_active),
            },
        )?;
        Ok(())
    }

    /// Records activity of a session.
    pub fn touch_session(&self, id: SessionId, at: Timestamp) -> Result<(), MetaError> {
        let sql = "UPDATE sessions SET last_active = ?2 WHERE id = ?1";
        self.change_one("session", id, sql, (Stored(id), Stored(at)))
    }

    /// Removes a session and its idempotency keys. Its workspaces stay, without an owner. Its id is kept until
    /// [`Self::forget_ended_session`].
    pub fn remove_session(&self, id: SessionId) -> Result<(), MetaError> {
        self.change_one("session", id, "DELETE FROM sessions WHERE id = ?1", [Stored(id)])
    }

    /// Records that the files of a removed session have been removed.
    pub fn forget_ended_session(&self, id: SessionId) -> Result<(), MetaError> {
        self.execute("DELETE FROM ended_sessions WHERE id = ?1", [Stored(id)])?;
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        id: get(row, "id")?,
        kind: get(row, "kind")?,
        client: row.get("client")?,
        token_hash: row.get("token_hash")?,
        created: get(row, "created")?,
        last_active: get(row, "last_active")?,
    })
}
