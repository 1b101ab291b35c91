//! The records, in one SQLite file.

mod database;
mod ids;
mod schema;

pub(crate) use database::{Database, Read, Tx, map_error};
pub(crate) use ids::{from_micros, id_of, path_of, to_micros, tree_of};
