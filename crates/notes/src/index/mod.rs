//! What is in the notes, for searches and links: one SQLite file that can be rebuilt from the notes at any time.
//!
//! The index follows the files. A change made through this crate is indexed before it is answered; changes of other
//! programs are noticed by the watcher, by a scan, or when a result turns out to be outdated. Only the holder of the
//! write lock changes the index.

mod graph;
mod lookup;
mod query;
mod rows;
mod scan;
mod schema;
mod search;

pub(crate) use graph::LinkRow;
pub(crate) use lookup::{Resolver, Way, relative};
pub(crate) use rows::{Row, now_ns};
pub use scan::ScanReport;
pub(crate) use scan::{Noticed, Observer};
pub(crate) use schema::Index;
pub(crate) use search::{Search, SearchMode, compile};
