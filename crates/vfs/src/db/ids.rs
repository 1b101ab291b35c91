//! Conversions between columns and values.

use agentiso_store::{ObjectId, TreeId, TreePath};
use jiff::Timestamp;
use rusqlite::Row;
use uuid::Uuid;

use super::database::map_error;

pub(crate) fn tree_of(row: &Row<'_>, column: usize) -> rusqlite::Result<TreeId> {
    let bytes: [u8; ObjectId::LEN] = row.get(column)?;
    Ok(TreeId(ObjectId::from_bytes(bytes)))
}

pub(crate) fn id_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    let bytes: [u8; 16] = row.get(column)?;
    Ok(Uuid::from_bytes(bytes))
}

pub(crate) fn path_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TreePath>> {
    let bytes: Option<Vec<u8>> = row.get(column)?;
    let parse = |bytes| TreePath::parse(bytes).map_err(|_| map_error(column, "it is not a path"));
    bytes.map(parse).transpose()
}

pub(crate) fn from_micros(column: usize, micros: i64) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(micros).map_err(|_| map_error(column, "it is not a time"))
}

pub(crate) fn to_micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}
