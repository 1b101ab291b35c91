//! Puts an import together.

use std::fs::File as HostFile;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{ffi::OsStr, ops::Range};

use rustix::fs::{OFlags, fstat, stat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::beneath::open_beneath;
use super::cache::{Record, StatCache};
use super::links::Links;
use super::read::{self, Failure, Outcome};
use super::report::{ImportReport, Reason};
use super::scan::{Listed, scan};
use crate::builder::Builder;
use crate::error::StoreError;
use crate::id::TreeId;
use crate::node::Node;
use crate::path::TreePath;
use crate::session::Session;
use crate::steps::Step;

/// Files that one thread reads before it looks for more work.
const BATCH: usize = 128;

/// How a directory is imported.
#[derive(Clone, Copy, Default)]
pub struct ImportOptions<'o> {
    /// What an earlier import of the same directory remembered.
    pub cache: Option<&'o StatCache>,
    /// Leave out what is mounted below the directory.
    pub one_file_system: bool,
    /// Report what may not be read instead of failing.
    pub skip_unreadable: bool,
    /// Paths to leave out, with everything below them.
    pub skip: Option<&'o (dyn Fn(&TreePath) -> bool + Sync)>,
    /// Number of threads; 0 for as many as there are processors, up to 8.
    pub threads: usize,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The tree.
    pub tree: TreeId,
    /// For the next import of the same directory.
    pub cache: StatCache,
    /// What was found and what was left out.
    pub report: ImportReport,
}

pub(super) struct Context<'i> {
    pub(super) session: &'i Session,
    pub(super) host: &'i Path,
    pub(super) root: OwnedFd,
    pub(super) device: u64,
    /// Device and inode of the store, which is never imported into itself.
    pub(super) store: (u64, u64),
    pub(super) options: &'i ImportOptions<'i>,
    /// The directory is the upper layer of an overlay.
    pub(super) is_layer: bool,
    now: i64,
}

impl<'i> Context<'i> {
    pub(super) fn open(
        session: &'i Session,
        host: &'i Path,
        options: &'i ImportOptions<'i>,
        is_layer: bool,
    ) -> Result<Self, StoreError> {
        let root: OwnedFd = HostFile::open(host).map_err(StoreError::io("open", host))?.into();
        let root_stat = fstat(&root).map_err(StoreError::os("read", host))?;
        let store_path = session.store().root();
        let store = stat(store_path).map_err(StoreError::os("read", store_path))?;
        let clock = clock_gettime(ClockId::RealtimeCoarse);
        Ok(Self {
            session,
            host,
            root,
            device: root_stat.st_dev,
            store: (store.st_dev, store.st_ino),
            options,
            is_layer,
            now: clock.tv_sec.saturating_mul(1_000_000_000).saturating_add(clock.tv_nsec),
        })
    }

    pub(super) fn failed(&self, what: &'static str, path: &TreePath) -> impl FnOnce(Errno) -> StoreError {
        let path = host_path(self.host, path);
        move |error| StoreError::Io { what, path, source: error.into() }
    }
}

pub(super) fn host_path(host: &Path, path: &TreePath) -> PathBuf {
    if path.is_root() { host.to_owned() } else { host.join(OsStr::from_bytes(path.as_bytes())) }
}

/// Imports a directory of the host. Never leaves it: symbolic links are stored and not followed, and renames and
/// replacements meanwhile are noticed. Nothing is visible before the session is committed.
pub fn import_directory(
    session: &Session,
    host: &Path,
    options: &ImportOptions<'_>,
) -> Result<Imported, StoreError> {
    let context = Context::open(session, host, options, false)?;
    let (listed, batches, report) = collect(&context)?;
    build(&context, listed, batches, report)
}

/// Lists and reads everything.
pub(super) fn collect(
    context: &Context<'_>,
) -> Result<(Vec<Listed>, Vec<Results>, ImportReport), StoreError> {
    let mut report = ImportReport::default();
    let listed = scan(context, &mut report)?;
    let batches = read_all(context, &listed)?;
    Ok((listed, batches, report))
}

/// A part of the entries of a directory.
struct Batch {
    directory: usize,
    range: Range<usize>,
}

pub(super) struct ReadNode {
    pub(super) directory: usize,
    /// Position in the directory.
    pub(super) position: usize,
    pub(super) node: Node,
    /// Device and inode, if it has more names.
    pub(super) inode: Option<(u64, u64)>,
}

#[derive(Default)]
pub(super) struct Results {
    pub(super) nodes: Vec<ReadNode>,
    /// Marks of deleted files: the directory and the position in it.
    pub(super) whiteouts: Vec<(usize, usize)>,
    pub(super) records: Vec<(u64, u64, Record)>,
    pub(super) report: ImportReport,
}

fn read_all(context: &Context<'_>, listed: &[Listed]) -> Result<Vec<Results>, StoreError> {
    let batches: Vec<Batch> = listed
        .iter()
        .enumerate()
        .flat_map(|(directory, listed)| {
            let len = listed.others.len();
            (0..len).step_by(BATCH).map(move |at| Batch { directory, range: at..len.min(at + BATCH) })
        })
        .collect();
    let wanted = match context.options.threads {
        0 => std::thread::available_parallelism().map_or(1, NonZero::get).min(8),
        threads => threads,
    };
    let next = AtomicUsize::new(0);
    let is_failed = AtomicBool::new(false);
    let work = || {
        let mut results = Results::default();
        while !is_failed.load(Ordering::Relaxed)
            && let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Some(directory) = listed.get(batch.directory)
                && let Err(error) = read_batch(context, directory, batch, &mut results)
            {
                is_failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(results)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..wanted.min(batches.len())).map(|_| scope.spawn(work)).collect();
        let mut all = vec![work()];
        all.extend(others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(StoreError::damaged("the import", "a thread of it panicked")))
        }));
        all.into_iter().collect()
    })
}

fn read_batch(
    context: &Context<'_>,
    listed: &Listed,
    batch: &Batch,
    results: &mut Results,
) -> Result<(), StoreError> {
    let fd = match open_beneath(&context.root, &listed.path, OFlags::RDONLY | OFlags::DIRECTORY) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {
            results.report.note(listed.path.clone(), Reason::DirectoryChanged);
            return Ok(());
        }
        Err(error) => return Err(context.failed("open", &listed.path)(error)),
    };
    for position in batch.range.clone() {
        let Some(name) = listed.others.get(position) else { continue };
        context.session.store().step(Step::ReadFile)?;
        let outcome = read::entry(context.session, fd.as_fd(), name, context.options.cache);
        let path = || listed.path.join(name);
        match outcome {
            Ok(Outcome::Left(Reason::Whiteout)) if context.is_layer => {
                results.whiteouts.push((batch.directory, position));
            }
            Ok(Outcome::Left(reason)) => results.report.note(path(), reason),
            Ok(Outcome::Kept { node, stat, is_reused, is_unstable }) => {
                if is_unstable {
                    results.report.note(path(), Reason::Unstable);
                }
                count(&mut results.report, &node, is_reused);
                let is_linked = stat.st_nlink > 1 && matches!(node, Node::File(_));
                if let Node::File(file) = &node
                    && !is_unstable
                    && file.meta.attributes.is_none()
                    && let Some(record) = StatCache::record(&stat, file.content, context.now)
                {
                    results.records.push((stat.st_dev, stat.st_ino, record));
                }
                let inode = is_linked.then_some((stat.st_dev, stat.st_ino));
                results.nodes.push(ReadNode { directory: batch.directory, position, node, inode });
            }
            Err(Failure::Host(_, Errno::ACCESS | Errno::PERM)) if context.options.skip_unreadable => {
                results.report.note(path(), Reason::Unreadable);
            }
            Err(Failure::Host(what, error)) => return Err(context.failed(what, &path())(error)),
            Err(Failure::Store(error)) => return Err(error),
        }
    }
    let after = fstat(&fd).map_err(context.failed("read", &listed.path))?;
    // Linking, renaming and removing files changes the directory; reading them does not.
    if !read::is_same(&listed.stat, &after) && batch.range.end == listed.others.len() {
        results.report.note(listed.path.clone(), Reason::DirectoryChanged);
    }
    Ok(())
}

fn count(report: &mut ImportReport, node: &Node, is_reused: bool) {
    match node {
        Node::File(file) => {
            report.files += 1;
            report.bytes += file.size;
            report.reused += u64::from(is_reused);
        }
        Node::Symlink { .. } => report.symlinks += 1,
        Node::Fifo { .. } => report.fifos += 1,
        Node::Directory(_) => {}
    }
}

fn build(
    context: &Context<'_>,
    listed: Vec<Listed>,
    all: Vec<Results>,
    mut report: ImportReport,
) -> Result<Imported, StoreError> {
    let missing = || StoreError::damaged("the import", "it has no root");
    let (first, rest) = listed.split_first().ok_or_else(missing)?;
    let mut builder = Builder::new(first.meta);
    let mut directories = vec![builder.root()];
    for directory in rest {
        let (Some(parent), Some((_, name))) = (directories.get(directory.parent), directory.path.split())
        else {
            return Err(missing());
        };
        directories.push(builder.add_directory(*parent, name, directory.meta)?);
    }
    let mut links = Links::default();
    let mut cache = StatCache::new(context.device);
    for results in all {
        report.add(results.report);
        for (device, inode, record) in results.records {
            cache.insert(device, inode, record);
        }
        for ReadNode { directory, position, node, inode } in results.nodes {
            let (Some(index), Some(listed)) = (directories.get(directory), listed.get(directory)) else {
                continue;
            };
            let Some(name) = listed.others.get(position) else { continue };
            match (inode, &node) {
                (Some((device, inode)), Node::File(file)) => {
                    links.add(device, inode, listed.path.join(name), *file);
                }
                _ => builder.add(*index, name, node)?,
            }
        }
    }
    let by_path: std::collections::HashMap<&TreePath, usize> =
        listed.iter().enumerate().map(|(index, listed)| (&listed.path, index)).collect();
    for (path, file) in links.finish() {
        let Some((parent, name)) = path.split() else { continue };
        if let Some(index) = by_path.get(&parent).and_then(|index| directories.get(*index)) {
            builder.add(*index, name, Node::File(file))?;
        }
    }
    let tree = builder.finish(context.session)?;
    Ok(Imported { tree, cache, report })
}
