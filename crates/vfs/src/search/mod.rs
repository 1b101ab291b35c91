//! Full-text search. The text of a file is indexed once, whichever vaults, forks and checkpoints have it: the index knows
//! contents, not paths. Directories whose files are all indexed are remembered, so a search after a change reads only the
//! directories on the way to what changed.
//!
//! The index is a file of its own. It holds nothing that is not in the store, and is made again if it is damaged.

mod fill;
mod index;
mod query;

pub use query::{SearchHit, SearchQuery, SearchResults};

pub(crate) use index::SearchIndex;
