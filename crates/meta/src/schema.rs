//! The database format, and migrations from older formats.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::{Connection, Transaction};
use rusqlite_migration::{M, Migrations};

use crate::MetaError;
use crate::id_like::rename_id_like;

/// The format this version writes.
pub(crate) const FORMAT: i64 = 12;

/// One migration per format, oldest first. A released one is never changed; new ones are added at the end.
fn migrations() -> Migrations<'static> {
    Migrations::new(vec![
        M::up(include_str!("0001.sql")).foreign_key_check(),
        // Only adds tables: no reference can break, and existing rows need not be read.
        M::up(include_str!("0002.sql")),
        M::up_with_hook("", |tx: &Transaction<'_>| Ok(rename_id_like(tx)?)),
        // Only adds columns, with values for existing rows.
        M::up(include_str!("0004.sql")),
        // Only adds tables and triggers.
        M::up(include_str!("0005.sql")),
        // Moves the rows of one table into another with the same references.
        M::up(include_str!("0006.sql")),
        // Only adds tables and a trigger.
        M::up(include_str!("0007.sql")),
        // Adds a column, with a value for the rows that are there, and changes names that nothing refers to.
        M::up(include_str!("0008.sql")),
        // Only adds a table.
        M::up(include_str!("0009.sql")),
        // Adds columns without values, and tables.
        M::up(include_str!("0010.sql")),
        // Only adds tables and a trigger.
        M::up(include_str!("0011.sql")),
        // Adds a column without values.
        M::up(include_str!("0012.sql")),
    ])
}

/// Migrates a database to the current format. If it is current, this only reads the format number.
pub(crate) fn bring_up(connection: &mut Connection, path: &Path) -> Result<(), MetaError> {
    if is_ready(connection, path)? {
        return Ok(());
    }
    // Serialises processes that find a new or old database: the second one finds the work done.
    let _turn = take_turn(path).map_err(|source| MetaError::Create { path: path.to_owned(), source })?;
    if is_ready(connection, path)? {
        return Ok(());
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    migrations().to_latest(connection).map_err(|error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => MetaError::from(err),
        other => MetaError::damaged(path, other),
    })
}

/// Whether the database has the current format.
fn is_ready(connection: &Connection, path: &Path) -> Result<bool, MetaError> {
    if format_of(connection, path)? != FORMAT {
        return Ok(false);
    }
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok(mode == "wal")
}

fn format_of(connection: &Connection, path: &Path) -> Result<i64, MetaError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    match found {
        0..=FORMAT => Ok(found),
        // No version of agentiso wrote a negative format.
        ..0 => Err(MetaError::damaged(path, format!("it says it has format {found}"))),
        _ => Err(MetaError::TooNew { path: path.to_owned(), found, known: FORMAT }),
    }
}

/// Locks the directory, because opening and closing the database file would release SQLite's locks.
#[expect(clippy::disallowed_methods, reason = "part of opening the database, which blocks")]
fn take_turn(path: &Path) -> io::Result<File> {
    let directory =
        File::open(path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))?;
    directory.lock()?;
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_is_valid() {
        migrations().validate().unwrap();
        let mut connection = Connection::open_in_memory().unwrap();
        migrations().to_latest(&mut connection).unwrap();
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(format, FORMAT);
    }
}
