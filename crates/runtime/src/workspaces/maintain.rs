//! Background maintenance: keeps chains of disks short and the pool filled, and removes what failed operations left.
//!
//! One process maintains at a time, under a lock; others ask it for another round through a flag file. What has to be
//! left for later (a busy workspace, a lock that others hold) raises another flag, so that the next check finds work.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use agentiso_blocking::in_place;
use agentiso_core::progress::Progress;
use agentiso_core::{Code, DiskId, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use super::Workspaces;
use super::chains::{Forest, Merge};
use super::files::exists;
use super::intent::Intent;

/// The nice value of the thread that copies disks.
const NICE: i32 = 10;
/// Disks of at most this size in total are merged even if that frees little.
const SMALL: u64 = 16 << 20;
/// Merging below a disk that is written to adds a layer, so it must free at least this much.
const WORTH_A_LAYER: u64 = 1 << 20;
/// Merging must free at least one byte per this many bytes copied.
const COPIES_PER_FREED: u64 = 8;

/// The lock of the process that maintains.
const TURN: &str = "lock";
/// The flag that asks for another round.
const AGAIN: &str = "again";
/// The flag that says that work was left for later.
const LEFT: &str = "left";

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Maintained {
    /// Unreferenced disks that were merged into the disk above them.
    pub merged: u32,
    /// Disks that were rewritten with fewer backing files.
    pub shortened: u32,
    /// Running machines that were switched to rewritten disks.
    pub moved: u32,
    /// Machines that were added to the pool.
    pub made_ready: u32,
    /// Machines that were removed from the pool.
    pub dismissed: u32,
}

impl Workspaces {
    /// Whether there is background work. Usually only reads the database.
    pub fn needs_maintenance(&self) -> bool {
        let needs = || -> Result<bool, Failure> {
            self.note_abandoned();
            if self.is_raised(LEFT)? || !self.meta.read(|read| read.unneeded_disks())?.is_empty() {
                return Ok(true);
            }
            // Failed operations are recovered by the next process, and while a daemon runs there may be none.
            if self.meta.read(|read| read.operations())?.iter().any(|operation| !operation.owner.is_alive()) {
                return Ok(true);
            }
            // A start that fell back from a template to a boot leaves the pinned memory of the template.
            if !self.unneeded_bases()?.is_empty() {
                return Ok(true);
            }
            let forest = self.meta.read(Forest::read)?;
            Ok(forest.rewrite().is_some()
                || forest.merges().iter().any(|merge| self.is_worth(merge))
                || self.pool_needs_upkeep()?)
        };
        in_place(needs).unwrap_or_else(|failure| {
            tracing::warn!(%failure, "could not determine whether there is background work");
            false
        })
    }

    /// Does the background work. If another process is doing it, that one is asked for another round.
    pub async fn maintain(&self, progress: &Arc<dyn Progress>) -> Result<Maintained, Failure> {
        let mut done = Maintained::default();
        self.raise(AGAIN)?;
        while self.is_raised(AGAIN)? {
            let Some(_turn) = self.take_turn()? else { return Ok(done) };
            while self.lower(AGAIN)? {
                self.lower(LEFT)?;
                self.maintain_once(&mut done, progress).await.inspect_err(|_| {
                    let _ = self.raise(LEFT);
                })?;
            }
        }
        Ok(done)
    }

    async fn maintain_once(
        &self,
        done: &mut Maintained,
        progress: &Arc<dyn Progress>,
    ) -> Result<(), Failure> {
        self.recover().await?;
        let mut all = self.remove_unneeded_if_at_rest()?;
        // A failure to fill the pool must not keep the disks from being maintained.
        let pool = self.keep_pool(done, progress).await;
        all &= self.keep_chains(done).await?;
        let (moved, left) = self.refresh_machines().await?;
        done.moved += moved;
        all &= left == 0;
        all &= self.remove_unneeded_if_at_rest()?;
        if !all {
            self.raise(LEFT)?;
        }
        self.write_records();
        self.installation.keep_reserve();
        pool
    }

    /// Merges and shortens chains until nothing is left to do. Returns false if something was left for later.
    async fn keep_chains(&self, done: &mut Maintained) -> Result<bool, Failure> {
        let mut busy = Vec::new();
        loop {
            let forest = self.meta.read(Forest::read)?;
            let merge = forest.merges().into_iter().find(|merge| {
                merge.writer.is_none_or(|writer| !busy.contains(&writer)) && self.is_worth(merge)
            });
            if let Some(Merge { writer: Some(writer), .. }) = merge {
                // A disk that is written to cannot be rewritten: it is frozen first, and merged in the next round.
                if !self.freeze_for_merging(writer).await? {
                    busy.push(writer);
                }
            } else if let Some(Merge { child, middles, .. }) = merge
                && let Some(&last) = middles.last()
            {
                let span = middles.iter().chain([&child]).map(|disk| forest.span(*disk)).sum();
                self.take_over(child, last, span).await?;
                done.merged += 1;
            } else if let Some(rewrite) = forest.rewrite() {
                self.take_over(rewrite.disk, rewrite.through, rewrite.span).await?;
                done.shortened += 1;
            } else {
                return Ok(busy.is_empty());
            }
        }
    }

    /// Rewrites a frozen disk so that it contains everything down to and including `through`.
    async fn take_over(&self, disk: DiskId, through: DiskId, span: u32) -> Result<(), Failure> {
        let disks = self.installation.shared_disks();
        let path = self.installation.disk_path(disk);
        let Some(onto) = disks.parent(&self.installation.disk_path(through))? else {
            let message = format!("the disk {through} stands on nothing, which no layer does");
            return Err(Failure::new(Code::DataDamaged, message));
        };
        // If the disk is removed in the meantime the new file is removed too, because it is no longer in the database.
        let intent = Intent { disks: vec![disk], collapse: Some(disk), ..Intent::default() };
        let undertaking = self.undertake("collapse", None, intent)?;
        niced(move || disks.collapse(&path, &onto)).await??;
        let parent = self.parent_of(disk)?;
        undertaking.finish(|tx| tx.set_disk_parent(disk, parent, span))
    }

    /// Whether merging frees enough for what it copies. Does not consider the length of chains.
    fn is_worth(&self, merge: &Merge) -> bool {
        let disks = self.installation.disks();
        let (mut freed, mut copied) = (0, 0);
        let mut above = self.installation.disk_path(merge.child);
        let measured = (|| {
            copied += disks.own_bytes(&above)?;
            for &middle in &merge.middles {
                let path = self.installation.disk_path(middle);
                copied += disks.own_bytes(&path)?;
                freed += disks.freed_by_removal(&path, &[std::mem::replace(&mut above, path.clone())])?;
            }
            Ok::<_, agentiso_core::ports::DiskError>(())
        })();
        // A disk that is being written to may be inconsistent for a moment.
        measured.is_ok()
            && match merge.writer {
                None => copied <= SMALL || freed * COPIES_PER_FREED >= copied,
                Some(_) => freed >= WORTH_A_LAYER && freed * COPIES_PER_FREED >= copied,
            }
    }

    /// Makes the next check find background work.
    pub(super) fn leave_for_later(&self) -> Result<(), Failure> {
        self.raise(LEFT)
    }

    /// Takes the lock of the maintenance; `None` if another process has it.
    fn take_turn(&self) -> Result<Option<File>, Failure> {
        #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
        let taken = || -> io::Result<Option<File>> {
            let mut options = OpenOptions::new();
            let file = options.create(true).truncate(false).write(true).mode(0o600).open(self.flag(TURN))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(file)),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        in_place(taken).map_err(|error| self.installation.io("lock the maintenance", error))
    }

    #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
    fn raise(&self, flag: &str) -> Result<(), Failure> {
        let raise = || {
            fs::create_dir_all(self.installation.paths.maintenance_dir())?;
            fs::write(self.flag(flag), "")
        };
        in_place(raise).map_err(|error| self.installation.io("write a flag of the maintenance", error))
    }

    /// Returns whether the flag was raised.
    #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
    fn lower(&self, flag: &str) -> Result<bool, Failure> {
        match in_place(|| fs::remove_file(self.flag(flag))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.installation.io("remove a flag of the maintenance", error)),
        }
    }

    fn is_raised(&self, flag: &str) -> Result<bool, Failure> {
        in_place(|| exists(&self.flag(flag)))
            .map_err(|error| self.installation.io("look for a flag of the maintenance", error))
    }

    fn flag(&self, name: &str) -> std::path::PathBuf {
        self.installation.paths.maintenance_dir().join(name)
    }
}

/// Runs blocking work on a new thread with a low priority. Must not start machines: they would inherit the priority.
async fn niced<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let failed = |error: String| Failure::new(Code::Internal, format!("a background task failed: {error}"));
    let (sender, done) = tokio::sync::oneshot::channel();
    let work = move || {
        // A failure only means the usual priority.
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = sender.send(work());
    };
    let spawned = std::thread::Builder::new().name("maintenance".to_owned()).spawn(work);
    spawned.map_err(|error| failed(error.to_string()))?;
    done.await.map_err(|error| failed(error.to_string()))
}
