//! The directory of all vaults.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agentiso_store::{Steps, Store};
use jiff::Timestamp;

use crate::VfsError;
use crate::db::Database;
use crate::search::SearchIndex;

/// Vaults that an opening process removes because they have expired. The next one removes more.
const SWEEP: usize = 64;

/// How vaults are opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Who makes changes, in the journal and in the audit log.
    pub actor: String,
    /// Observes the steps of the store; tests stop or fail at one of them.
    pub steps: Steps,
}

impl Default for Options {
    fn default() -> Self {
        Self { actor: format!("user:{}", rustix::process::getuid().as_raw()), steps: Steps::none() }
    }
}

/// All vaults of one directory. Any number of processes and threads may use it at once.
#[derive(Debug)]
pub struct Vaults {
    directory: PathBuf,
    pub(crate) actor: String,
    pub(crate) store: Store,
    pub(crate) records: Database,
    pub(crate) index: SearchIndex,
}

impl Vaults {
    /// Opens the vaults of a directory, which is created if it does not exist. Removes some vaults that have expired.
    pub fn open(directory: &Path, options: Options) -> Result<Self, VfsError> {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(directory.join("locks")).map_err(VfsError::io("create", directory))?;
        let store_options = agentiso_store::Options { steps: options.steps };
        let store = Store::open_or_create(&directory.join("store"), store_options)?;
        let records = Database::open(&directory.join("vaults.db"))?;
        let index = SearchIndex::new(&directory.join("search.db"));
        let vaults = Self { directory: directory.to_owned(), actor: options.actor, store, records, index };
        vaults.sweep_expired(SWEEP)?;
        Ok(vaults)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The store of all trees.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Who makes changes.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    pub(crate) fn now() -> Timestamp {
        // Whole microseconds, as they are stored.
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}
