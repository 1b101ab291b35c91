//! Records in a temporary file, every transaction of which can be made to fail.

use std::path::Path;
use std::sync::{Arc, Mutex};

use agentiso_meta::{Gate, Meta};

use super::machine::locked;
use crate::FailAt;

/// A database of one test's own. Dropping it removes the file.
pub struct TestRecords {
    meta: Arc<Meta>,
    failing: Arc<Mutex<Option<FailAt>>>,
    dir: tempfile::TempDir,
}

impl TestRecords {
    /// A new, empty database.
    ///
    /// # Panics
    ///
    /// If it cannot be made.
    pub fn new() -> Self {
        // In memory where the host has a place for that: most of the time of a short test would be waiting for the disk.
        let place = Some(Path::new("/dev/shm")).filter(|place| place.is_dir());
        let place = place.map_or_else(std::env::temp_dir, Path::to_owned);
        let dir = tempfile::tempdir_in(place).expect("a temporary directory");
        let failing: Arc<Mutex<Option<FailAt>>> = Arc::default();
        let asked = Arc::clone(&failing);
        let gate = Gate::new(move || locked(&asked).as_ref().is_none_or(FailAt::admits));
        let meta = Meta::open(&dir.path().join("state.db")).expect("a database").with_gate(gate);
        Self { meta: Arc::new(meta), failing, dir }
    }

    /// The database.
    pub fn meta(&self) -> &Arc<Meta> {
        &self.meta
    }

    /// The directory it is in.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Fails transactions as `fail` says, from now on.
    pub fn fail(&self, fail: FailAt) {
        *locked(&self.failing) = Some(fail);
    }

    /// Lets every transaction succeed again.
    pub fn succeed(&self) {
        *locked(&self.failing) = None;
    }
}

impl Default for TestRecords {
    fn default() -> Self {
        Self::new()
    }
}
