//! The timeline: which actions were performed, by which client, with which result.

use std::time::Duration;

use agentiso_core::WorkspaceName;
use agentiso_core::ports::records::{EventEnd, INTERRUPTED, RUNNING};
use rusqlite::{Row, named_params};

use crate::stored::{Stored, get, get_if_any};
use crate::{By, Event, EventFilter, MAX_CLIENT, MAX_DETAIL, MetaError, NewEvent, Read, Tx};

impl Read<'_> {
    /// Returns events, newest first.
    pub fn events(&self, filter: EventFilter) -> Result<Vec<Event>, MetaError> {
        let EventFilter { workspace, before, by, without, limit } = filter;
        let before = before.unwrap_or(i64::MAX);
        let (session, or_user) = match by {
            By::Anyone => (None, true),
            By::Session(session) => (Some(Stored(session)), false),
            By::SessionOrUser(session) => (Some(Stored(session)), true),
        };
        let whose = "(?1 IS NULL OR session = ?1 OR (?2 AND session IS NULL))";
        let which = match without {
            [] => String::new(),
            // Names of actions are constants of agentiso.
            names => format!("AND NOT (outcome = 'ok' AND action IN ('{}'))", names.join("', '")),
        };
        match workspace {
            Some(workspace) => self.all(
                &format!(
                    "SELECT * FROM timeline WHERE {whose} AND id < ?3 AND workspace = ?5 {which}
                     ORDER BY id DESC LIMIT ?4"
                ),
                (session, or_user, before, limit, Stored(workspace)),
                read,
            ),
            None => self.all(
                &format!(
                    "SELECT * FROM timeline WHERE {whose} AND id < ?3 {which} ORDER BY id DESC LIMIT ?4"
                ),
                (session, or_user, before, limit),
                read,
            ),
        }
    }
}

impl Read<'_> {
    /// Returns the place of the newest event, 0 if there is none.
    pub fn newest_event(&self) -> Result<i64, MetaError> {
        let newest = self.one("SELECT max(id) FROM timeline", (), |row| row.get::<_, Option<i64>>(0))?;
        Ok(newest.flatten().unwrap_or(0))
    }

    /// Returns the places of the events up to one whose actions have not ended.
    pub fn running_events(&self, up_to: i64) -> Result<Vec<i64>, MetaError> {
        let sql = "SELECT id FROM timeline WHERE outcome = ?1 AND id <= ?2";
        self.all(sql, (RUNNING, up_to), |row| row.get(0))
    }
}

impl Tx<'_> {
    /// Appends an event to the timeline and returns its position.
    pub fn append_event(&self, event: &NewEvent) -> Result<i64, MetaError> {
        MetaError::require_short("client's name", &event.client, MAX_CLIENT)?;
        let detail = event.detail.to_string();
        if detail.len() > MAX_DETAIL {
            return Err(MetaError::TooLong { what: "detail", max: MAX_DETAIL, unit: "bytes" });
        }
        self.execute(
            "INSERT INTO timeline (at, workspace, workspace_name, session, client, action, detail, duration_us,
               outcome, changed)
             VALUES (:at, :workspace, :workspace_name, :session, :client, :action, :detail, :duration_us,
               :outcome, :changed)",
            named_params! {
                ":at": Stored(event.at),
                ":workspace": event.workspace.map(Stored),
                ":workspace_name": event.workspace_name.as_ref().map(WorkspaceName::as_str),
                ":session": event.session.map(Stored),
                ":client": event.client,
                ":action": event.action,
                ":detail": detail,
                ":duration_us": i64::try_from(event.duration.as_micros()).unwrap_or(i64::MAX),
                ":outcome": event.outcome,
                ":changed": event.changed,
            },
        )?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Appends events to the timeline, in the given order.
    pub fn append_events(&self, events: &[NewEvent]) -> Result<(), MetaError> {
        events.iter().try_for_each(|event| self.append_event(event).map(drop))
    }

    /// Completes an event that was added before. One that is no longer kept is skipped.
    pub fn complete_event(&self, end: &EventEnd) -> Result<(), MetaError> {
        let (workspace, name) = match &end.workspace {
            Some((id, name)) => (Some(Stored(*id)), Some(name.as_str())),
            None => (None, None),
        };
        self.execute(
            "UPDATE timeline SET duration_us = :duration_us, outcome = :outcome, changed = :changed,
               workspace = coalesce(:workspace, workspace),
               workspace_name = coalesce(:workspace_name, workspace_name)
             WHERE id = :id",
            named_params! {
                ":id": end.id,
                ":workspace": workspace,
                ":workspace_name": name,
                ":duration_us": i64::try_from(end.duration.as_micros()).unwrap_or(i64::MAX),
                ":outcome": end.outcome,
                ":changed": end.changed,
            },
        )?;
        Ok(())
    }

    /// Marks an event as one whose action never ended.
    pub fn interrupt_event(&self, id: i64) -> Result<(), MetaError> {
        let sql = "UPDATE timeline SET outcome = ?1 WHERE id = ?2 AND outcome = ?3";
        self.execute(sql, (INTERRUPTED, id, RUNNING))?;
        Ok(())
    }

    /// Removes all events but the newest. Returns the number of removed events.
    pub fn prune_events(&self, keep_newest: u64) -> Result<usize, MetaError> {
        let keep = i64::try_from(keep_newest).unwrap_or(i64::MAX);
        Ok(self.execute(
            "DELETE FROM timeline
             WHERE id <= (SELECT id FROM timeline ORDER BY id DESC LIMIT 1 OFFSET ?1)",
            [keep],
        )?)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    let duration: i64 = row.get("duration_us")?;
    Ok(Event {
        id: row.get("id")?,
        done: NewEvent {
            at: get(row, "at")?,
            workspace: get_if_any(row, "workspace")?,
            workspace_name: get_if_any(row, "workspace_name")?,
            session: get_if_any(row, "session")?,
            client: row.get("client")?,
            action: row.get("action")?,
            detail: get(row, "detail")?,
            duration: Duration::from_micros(duration.unsigned_abs()),
            outcome: row.get("outcome")?,
            changed: row.get("changed")?,
        },
    })
}
