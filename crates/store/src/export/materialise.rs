//! Writes a tree into a new directory.
//!
//! ```text
//! .NAME.partial-RANDOM, locked ──► directories ──► files in parallel ──► links ──► modes and times ──► rename to NAME
//!          │ fails: removed        │
//!          └ killed: the next export beside it, or `remove_abandoned`, finds it without its lock and removes it
//! ```
//!
//! Nothing is flushed to disk unless asked for: a directory can be written again from the store.

use std::num::NonZero;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{AtFlags, OFlags, linkat, syncfs};
use rustix::io::Errno;

use super::apply_meta::{Failed, Metadata};
use super::file::create;
use super::partial::Partial;
use super::plan::{Job, Link, Plan, plan};
use super::reuse::{Reuse, Shared, Source};
use crate::error::StoreError;
use crate::id::TreeId;
use crate::import::open_beneath;
use crate::path::TreePath;
use crate::steps::Step;
use crate::store::Store;

/// How a tree is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct MaterialiseOptions<'o> {
    /// Give everything its recorded owner, which needs root. Without it, files belong to the caller, and setuid and setgid
    /// bits are left out.
    pub owners: bool,
    /// Take unchanged files from another directory.
    pub reuse: Option<Reuse<'o>>,
    /// Flush everything to disk before the directory gets its name.
    pub durable: bool,
    /// Number of threads; 0 for as many as there are processors, up to 8.
    pub threads: usize,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Materialised {
    /// Files, links and pipes.
    pub entries: u64,
    /// Directories, with the root.
    pub directories: u64,
    /// Files that are hard links into the other directory.
    pub linked: u64,
    /// Files that are clones of files of the other directory.
    pub cloned: u64,
    /// Extended attributes that the file system did not accept.
    pub refused_attributes: u64,
}

/// Writes a tree to `destination`, which must not exist, or be an empty directory. It appears complete or not at all.
pub fn materialise(
    store: &Store,
    tree: TreeId,
    destination: &Path,
    options: &MaterialiseOptions<'_>,
) -> Result<Materialised, StoreError> {
    let source = options.reuse.as_ref().map(Source::open).transpose()?;
    let partial = Partial::create(destination)?;
    let writing = Writing {
        metadata: Metadata { store, with_owners: options.owners },
        source,
        destination,
        root: partial.directory.as_fd(),
    };
    let plan = plan(store, writing.root, tree, options.reuse.map(|reuse| reuse.tree))?;
    let mut total = writing.files(&plan.jobs, options.threads)?;
    for link in &plan.links {
        writing.link(link)?;
        total.entries += 1;
    }
    writing.directories(&plan, &mut total)?;
    if options.durable {
        syncfs(writing.root).map_err(StoreError::os("flush", destination))?;
    }
    store.step(Step::PublishDirectory)?;
    partial.publish(destination)?;
    Ok(total)
}

struct Writing<'w> {
    metadata: Metadata<'w>,
    source: Option<Source>,
    destination: &'w Path,
    root: BorrowedFd<'w>,
}

impl Writing<'_> {
    fn files(&self, jobs: &[Job], threads: usize) -> Result<Materialised, StoreError> {
        let threads = match threads {
            0 => std::thread::available_parallelism().map_or(1, NonZero::get).min(8),
            threads => threads,
        };
        let next = AtomicUsize::new(0);
        let is_failed = AtomicBool::new(false);
        let work = || {
            let mut done = Materialised::default();
            while !is_failed.load(Ordering::Relaxed)
                && let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed))
            {
                if let Err(error) = self.job(job, &mut done) {
                    is_failed.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
            Ok(done)
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads.min(jobs.len())).map(|_| scope.spawn(work)).collect();
            let mut total = work()?;
            for thread in others {
                let panicked = |_| Err(StoreError::damaged("the export", "a thread of it panicked"));
                let done = thread.join().unwrap_or_else(panicked)?;
                total.entries += done.entries;
                total.linked += done.linked;
                total.cloned += done.cloned;
                total.refused_attributes += done.refused_attributes;
            }
            Ok(total)
        })
    }

    fn job(&self, job: &Job, done: &mut Materialised) -> Result<(), StoreError> {
        let directory = self.open(&job.path)?;
        let from = self.source.as_ref().and_then(|source| Some((source, source.directory(&job.path)?)));
        for entry in &job.entries {
            self.metadata.store.step(Step::CreateEntry)?;
            let is_known = job.known.get(&entry.name) == Some(&entry.node);
            let shared_from = from.as_ref().filter(|_| is_known).map(|(source, fd)| (*source, fd.as_fd()));
            let made = create(&self.metadata, directory.as_fd(), entry, shared_from);
            let made = made.map_err(|failed| self.failed(failed, &job.path.join(&entry.name)))?;
            done.entries += 1;
            done.linked += u64::from(made.shared == Shared::Linked);
            done.cloned += u64::from(made.shared == Shared::Cloned);
            done.refused_attributes += made.refused_attributes;
        }
        Ok(())
    }

    fn link(&self, link: &Link) -> Result<(), StoreError> {
        let (Some((from, old)), Some((to, new))) = (link.from.split(), link.to.split()) else {
            return Ok(());
        };
        let (from, to) = (self.open(&from)?, self.open(&to)?);
        self.metadata.store.step(Step::CreateEntry)?;
        linkat(&from, old, &to, new, AtFlags::empty())
            .map_err(|error| self.failed(Failed::Host("create", error), &link.to))
    }

    /// Children before parents: what is put into a directory changes its time.
    fn directories(&self, plan: &Plan, total: &mut Materialised) -> Result<(), StoreError> {
        for (path, meta) in plan.directories.iter().rev() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let fd = open_beneath(self.root, path, flags);
            let fd = fd.map_err(|error| self.failed(Failed::Host("open", error), path))?;
            let refused = self.metadata.apply(fd.as_fd(), meta);
            total.refused_attributes += refused.map_err(|failed| self.failed(failed, path))?;
            total.directories += 1;
        }
        Ok(())
    }

    fn open(&self, path: &TreePath) -> Result<std::os::fd::OwnedFd, StoreError> {
        open_beneath(self.root, path, OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|error: Errno| self.failed(Failed::Host("open", error), path))
    }

    /// Names the path at its destination: the temporary name means nothing to the user.
    fn failed(&self, failed: Failed, path: &TreePath) -> StoreError {
        let place = self.destination.join(path.as_host());
        match failed {
            Failed::Host(what, error) => StoreError::Io { what, path: place, source: error.into() },
            Failed::Store(StoreError::Io { what: "write", source, .. }) => {
                StoreError::Io { what: "write", path: place, source }
            }
            Failed::Store(error) => error,
        }
    }
}
