//! The points at which a change of the store or of a directory advances. Tests stop, fail or kill a process at them.

use std::fmt;
use std::io;
use std::sync::Arc;

/// Something that is about to happen.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Step {
    /// A temporary pack is created.
    CreatePack,
    /// An object is appended to it.
    AppendObject,
    /// Index and footer are written, and the pack is flushed to disk.
    SealPack,
    /// The new roots are written into the lease.
    RecordRoots,
    /// The pack gets its final name.
    PublishPack,
    /// The directory of packs is flushed to disk.
    SyncPacks,
    /// The marking of what is reachable begins.
    Mark,
    /// The live objects of a pack are copied.
    CopyLive,
    /// A pack is removed.
    RemovePack,
    /// A file of an import is read.
    ReadFile,
    /// An entry of a directory is created on the host.
    CreateEntry,
    /// A complete directory gets its final name.
    PublishDirectory,
}

type Hook = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// Is told every step. An error stops the operation as an error of the disk would.
#[derive(Clone)]
pub struct Steps(Option<Arc<Hook>>);

impl Steps {
    /// Does nothing.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Calls a function before each step.
    pub fn new(hook: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hook)))
    }

    pub(crate) fn reach(&self, step: Step) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(step))
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Steps(hook)" } else { "Steps" })
    }
}
