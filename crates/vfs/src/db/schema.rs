//! The format of the records, and migrations from older formats.

use std::fs::File;
use std::path::Path;

use rusqlite::Connection;
use rusqlite_migration::{M, Migrations};

use crate::VfsError;

/// The format that this version writes.
const FORMAT: i64 = 1;

/// One migration per format, oldest first. A released one is never changed; new ones are added at the end.
fn migrations() -> Migrations<'static> {
    Migrations::new(vec![M::up(include_str!("0001.sql")).foreign_key_check()])
}

/// Migrates the records to the current format.
pub(super) fn bring_up(connection: &mut Connection, path: &Path) -> Result<(), VfsError> {
    if is_ready(connection, path)? {
        return Ok(());
    }
    // Serialises processes that find new or old records: the second one finds the work done. The directory is locked,
    // because closing a file of the database would release SQLite's locks.
    let directory = path.parent().unwrap_or(Path::new("."));
    let _turn = File::open(directory)
        .and_then(|directory| directory.lock().map(|()| directory))
        .map_err(VfsError::io("lock", directory))?;
    if is_ready(connection, path)? {
        return Ok(());
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    migrations().to_latest(connection).map_err(|error| match error {
        rusqlite_migration::Error::RusqliteError { err, .. } => VfsError::from(err),
        other => VfsError::Records { path: path.to_owned(), reason: other.to_string() },
    })
}

fn is_ready(connection: &Connection, path: &Path) -> Result<bool, VfsError> {
    let found = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))?;
    match found {
        FORMAT => {}
        0..FORMAT => return Ok(false),
        ..0 => {
            let reason = format!("it says it has format {found}");
            return Err(VfsError::Records { path: path.to_owned(), reason });
        }
        _ => return Err(VfsError::TooNew { path: path.to_owned(), found, known: FORMAT }),
    }
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok(mode == "wal")
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
