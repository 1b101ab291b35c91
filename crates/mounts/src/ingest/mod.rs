//! Reads the changes of a working directory into a new tree.
//!
//! ```text
//! nothing runs     one pass
//! commands run     passes until two in a row give the same tree: then nothing changed between them, and the tree is what
//!                  was there at the moment between the two. After a few passes the last one is taken and said to be torn
//! commands freeze  one pass beside them, which reads almost everything; then a freeze, a pass that reads what changed
//!                  since, and a thaw
//! ```
//!
//! An overlay's writable layer has every byte that was written through the overlay at once, mapped files too. Nothing needs
//! to be unmounted or flushed first.

mod ingested;
mod recorded;
mod run;
mod unreadable;

pub use ingested::{IngestOptions, Ingested, Quiesce, Running};
