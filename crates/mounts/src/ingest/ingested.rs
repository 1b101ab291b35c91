//! How changes are read, and the result.

use std::fmt;
use std::io;

use agentiso_store::{Changes, ImportReport, Lease, TreeId};

/// Stops everything that writes to a working directory for a moment, for example by freezing a cgroup.
pub trait Quiesce: Sync {
    /// Returns when nothing writes any more.
    fn freeze(&self) -> io::Result<()>;
    /// Lets it continue. Called after every successful `freeze`, whatever happened in between.
    fn thaw(&self) -> io::Result<()>;
}

/// What may write to the working directory meanwhile.
#[derive(Clone, Copy, Default)]
pub enum Running<'r> {
    /// Nothing.
    #[default]
    Nothing,
    /// Commands, which nobody can stop.
    Unfrozen,
    /// Commands that this stops.
    Frozen(&'r dyn Quiesce),
}

impl fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Unfrozen => "Unfrozen",
            Self::Frozen(_) => "Frozen",
        })
    }
}

/// How changes are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct IngestOptions<'o> {
    /// What may write meanwhile.
    pub running: Running<'o>,
    /// Number of threads; 0 for as many as there are processors, up to 8.
    pub threads: usize,
}

/// What was read.
#[derive(Debug)]
pub struct Ingested {
    /// The new tree.
    pub tree: TreeId,
    /// The tree before: that of the last ingest, or the one below the writable layer.
    pub before: TreeId,
    /// Keeps the new tree in the store until the caller has recorded it.
    pub lease: Lease,
    /// What differs between the two trees. Times alone are no change here, though the tree has them.
    pub changes: Changes,
    /// Whether the tree is what was there at one moment.
    pub is_consistent: bool,
    /// Counts, and notices of what could not be kept: sockets, devices, unreadable files.
    pub report: ImportReport,
}
