//! The steps of a change, for tests that stop or fail at one of them.

use std::fmt;
use std::io;
use std::sync::Arc;

/// A step of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// The contents are in the store; nothing else has changed.
    ContentsStored,
    /// A change of several files was written down.
    Planned,
    /// A new content is in a temporary file.
    Staged,
    /// A file was created, replaced or removed.
    Published,
    /// All files are as planned.
    AllPublished,
    /// The new versions are in the history.
    Recorded,
    /// The index has the new content.
    Indexed,
}

type Observer = dyn Fn(Step) -> io::Result<()> + Send + Sync;

/// Observes steps. By default nobody does.
#[derive(Clone, Default)]
pub struct Steps(Option<Arc<Observer>>);

impl Steps {
    /// Calls the function before each step is taken; an error makes the change fail there.
    pub fn new(observe: impl Fn(Step) -> io::Result<()> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }

    pub(crate) fn reach(&self, step: Step) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |observe| observe(step))
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Steps")
    }
}
