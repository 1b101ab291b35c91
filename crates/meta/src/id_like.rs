//! Format 3: no workspace has a name that looks like an id.
//!
//! Before it, a workspace could be named with the id of another one, and received the calls meant for that one. Such
//! workspaces are renamed to `named-` and their old name (cut to fit, and numbered if that is taken), which is written
//! to the log and to the timeline. Names in histories (lineage, timeline) are changed the same way.

use std::collections::BTreeMap;

use agentiso_core::{WorkspaceName, resembles_id};
use jiff::Timestamp;
use rusqlite::{Result, Transaction, params};

/// Prefix of the new names.
const PREFIX: &str = "named-";

/// Renames every workspace whose name looks like an id.
pub(crate) fn rename_id_like(tx: &Transaction<'_>) -> Result<()> {
    let mut renamed = BTreeMap::new();
    for (id, name) in id_like(tx, "SELECT id, name FROM workspaces ORDER BY created, id")? {
        let new = free_name(tx, &name)?;
        tx.execute("UPDATE workspaces SET name = ?2 WHERE id = ?1", params![id, new])?;
        tx.execute(
            "INSERT INTO timeline (at, workspace, workspace_name, client, action, detail, duration_us, outcome, changed)
             VALUES (?1, ?2, ?3, 'agentiso', 'workspace_rename', '{\"reason\":\"the name looked like an id\"}', 0, 'ok', ?4)",
            params![Timestamp::now().as_microsecond(), id, new, format!("is now called {new}")],
        )?;
        tracing::warn!(workspace = id, old = name, new, "renamed a workspace whose name looked like an id");
        renamed.insert(name, new);
    }
    let name_now = |name: &String| renamed.get(name).cloned().unwrap_or_else(|| numbered(name, 1));
    for (id, name) in id_like(tx, "SELECT id, source_name FROM workspaces WHERE source_name IS NOT NULL")? {
        tx.execute("UPDATE workspaces SET source_name = ?2 WHERE id = ?1", params![id, name_now(&name)])?;
    }
    let told = "SELECT DISTINCT '', workspace_name FROM timeline WHERE workspace_name IS NOT NULL";
    for (_, name) in id_like(tx, told)? {
        let sql = "UPDATE timeline SET workspace_name = ?2 WHERE workspace_name = ?1";
        tx.execute(sql, params![name, name_now(&name)])?;
    }
    Ok(())
}

/// Rows (id, name) of a query whose name looks like an id.
fn id_like(tx: &Transaction<'_>, sql: &str) -> Result<Vec<(String, String)>> {
    let mut statement = tx.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    rows.filter(|row| row.as_ref().map_or(true, |(_, name)| resembles_id(name))).collect()
}

fn free_name(tx: &Transaction<'_>, name: &str) -> Result<String> {
    let mut number = 1;
    loop {
        let new = numbered(name, number);
        let taken = "SELECT count(*) FROM workspaces WHERE name = ?1";
        if tx.query_row(taken, [&new], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(new);
        }
        number += 1;
    }
}

/// Returns the name itself for the first attempt, then the name with a number.
fn numbered(name: &str, number: u32) -> String {
    let end = if number == 1 { String::new() } else { format!("-{number}") };
    let room = WorkspaceName::MAX - PREFIX.len() - end.len();
    let kept: String = name.chars().take(room).collect();
    format!("{PREFIX}{}{end}", kept.trim_end_matches('-'))
}
