//! An ingest from start to end.

use std::path::Path;

use agentiso_store::{
    ChangeOptions, ImportOptions, Imported, Reason, Root, Session, StatCache, StoreError, TreePath, changes,
    import_directory, import_layer,
};

use super::ingested::{IngestOptions, Ingested, Quiesce, Running};
use super::recorded::as_recorded;
use super::unreadable::Readable;
use crate::error::MountError;
use crate::files::write_bytes;
use crate::renames::is_staging;
use crate::workdir::{Kind, State, WorkDir};

/// Passes beside running commands.
const PASSES: usize = 5;

impl WorkDir {
    /// Reads all changes into a new tree and commits it. The changes stay in the working directory, which can be used and
    /// ingested again. May be called by a process that does not hold it.
    pub fn ingest(&self, options: &IngestOptions<'_>) -> Result<Ingested, MountError> {
        let _ingest = self.lock_ingest()?;
        let mut state = self.read_state()?;
        let directory = self.path();
        let store = self.dirs.store();
        let mut session = store.begin()?;
        for tree in [state.tree, state.current] {
            session.hold(Root::Tree(tree))?;
        }
        let cache_path = directory.join("cache");
        // Without it, files are read again.
        let known = std::fs::read(&cache_path).ok().and_then(|bytes| StatCache::decode(&bytes).ok());
        let reading = Reading {
            session: &session,
            state: &state,
            writable: &directory.join(state.writable()),
            threads: options.threads,
        };
        let unreadable = directory.join("unreadable.json");
        Readable::recover(reading.writable, &unreadable)?;
        let (imported, is_consistent, found) = match reading.passes(options.running, known.as_ref()) {
            Err(error) if is_refused(&error) => {
                let readable = Readable::make(reading.writable, &unreadable)?;
                let (imported, is_consistent) = reading.passes(options.running, known.as_ref())?;
                let found = readable.as_before(&session, imported.tree)?;
                (imported, is_consistent, found)
            }
            result => {
                let (imported, is_consistent) = result?;
                let found = imported.tree;
                (imported, is_consistent, found)
            }
        };
        let tree = as_recorded(&session, state.tree, found)?;
        let before = state.current;
        let lease = if tree == before {
            drop(session);
            store.hold(Root::Tree(tree))?
        } else {
            session.commit(&[Root::Tree(tree)])?
        };
        let changes = changes(store, before, tree, &ChangeOptions::default())?;
        if tree != before {
            state.current = tree;
            state.write(&directory)?;
        }
        if known.as_ref() != Some(&imported.cache) && (known.is_some() || !imported.cache.is_empty()) {
            write_bytes(&cache_path, &imported.cache.encode())?;
        }
        self.set_state(state);
        Ok(Ingested { tree, before, lease, changes, is_consistent, report: imported.report })
    }
}

struct Reading<'r> {
    session: &'r Session,
    state: &'r State,
    writable: &'r Path,
    threads: usize,
}

impl Reading<'_> {
    fn passes(
        &self,
        running: Running<'_>,
        known: Option<&StatCache>,
    ) -> Result<(Imported, bool), MountError> {
        let mut last = self.pass(known)?;
        match running {
            Running::Nothing => {
                let is_consistent = !is_disturbed(&last);
                Ok((last, is_consistent))
            }
            Running::Unfrozen => {
                for _ in 1..PASSES {
                    let next = self.pass(Some(&last.cache))?;
                    let is_same = next.tree == last.tree && !is_disturbed(&next) && !is_disturbed(&last);
                    last = next;
                    if is_same {
                        return Ok((last, true));
                    }
                }
                Ok((last, false))
            }
            Running::Frozen(quiesce) => {
                let last = frozen(quiesce, || self.pass(Some(&last.cache)))?;
                let is_consistent = !is_disturbed(&last);
                Ok((last, is_consistent))
            }
        }
    }

    fn pass(&self, cache: Option<&StatCache>) -> Result<Imported, StoreError> {
        let skip = |path: &TreePath| path.split().is_some_and(|(_, name)| is_staging(name));
        let options = ImportOptions {
            cache,
            one_file_system: true,
            skip_unreadable: false,
            skip: Some(&skip),
            threads: self.threads,
        };
        if self.state.kind == Kind::Plain {
            import_directory(self.session, self.writable, &options)
        } else {
            import_layer(self.session, self.state.tree, self.writable, &options)
        }
    }
}

/// Whether a file may not be read by its owner.
fn is_refused(error: &MountError) -> bool {
    matches!(
        error,
        MountError::Store(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied
    )
}

/// Whether something changed while it was read.
fn is_disturbed(imported: &Imported) -> bool {
    let report = &imported.report;
    let is_torn = |reason| matches!(reason, Reason::Unstable | Reason::DirectoryChanged | Reason::Vanished);
    // Notices that were not kept may be of that kind.
    report.notice_count > report.notices.len() as u64
        || report.notices.iter().any(|notice| is_torn(notice.reason))
}

fn frozen<T>(quiesce: &dyn Quiesce, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, MountError> {
    quiesce.freeze().map_err(MountError::io("stop", "the running commands"))?;
    let thaw = Thaw(Some(quiesce));
    let result = work();
    thaw.now()?;
    Ok(result?)
}

/// Thaws when dropped, in a panic too.
struct Thaw<'q>(Option<&'q dyn Quiesce>);

impl Thaw<'_> {
    fn now(mut self) -> Result<(), MountError> {
        match self.0.take() {
            Some(quiesce) => quiesce.thaw().map_err(MountError::io("continue", "the running commands")),
            None => Ok(()),
        }
    }
}

impl Drop for Thaw<'_> {
    fn drop(&mut self) {
        if let Some(quiesce) = self.0.take() {
            let _ = quiesce.thaw();
        }
    }
}
