//! What is done in the background: short chains of disks, and a full pool.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use agentiso_core::progress::Progress;
use agentiso_core::{Code, DiskId, Failure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use super::Workspaces;
use super::chains::{Forest, Merge};
use super::intent::Intent;

/// How much less than everyone else the copying of disks asks for the processor.
const NICE: i32 = 10;
/// Disks that hold no more than this together are merged whatever it frees.
const SMALL: u64 = 16 << 20;
/// Beneath a disk that is written to, less than this is not worth another layer.
const WORTH_A_LAYER: u64 = 1 << 20;
/// Merging must free at least one byte for this many copied.
const COPIES_PER_FREED: u64 = 8;

/// Held by the one who maintains.
const TURN: &str = "lock";
/// Asks the one who maintains to look once more.
const AGAIN: &str = "again";
/// Says that something had to be left for another time.
const LEFT: &str = "left";

/// What was done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Maintained {
    /// Disks that took over ones that nobody needs.
    pub merged: u32,
    /// Disks that were rewritten to stand on fewer others.
    pub shortened: u32,
    /// Running machines that were moved to rewritten disks.
    pub moved: u32,
    /// Machines that were put into the pool.
    pub made_ready: u32,
    /// Machines that were taken out of the pool because nobody wants them.
    pub dismissed: u32,
}

impl Workspaces {
    /// Whether there is anything to do in the background. A look at the database, unless something is about to be.
    pub fn needs_maintenance(&self) -> bool {
        let needs = || -> Result<bool, Failure> {
            self.note_abandoned();
            if self.flag(LEFT).exists() || !self.meta.read(|read| read.unneeded_disks())?.is_empty() {
                return Ok(true);
            }
            // What failed is tidied up by whoever comes next; nobody else may come while one process stays.
            if self.meta.read(|read| read.operations())?.iter().any(|operation| !operation.owner.is_alive()) {
                return Ok(true);
            }
            // A machine that ended while it was made from a template, and was booted then, has left the template's.
            if !self.unneeded_bases()?.is_empty() {
                return Ok(true);
            }
            let forest = self.meta.read(Forest::read)?;
            Ok(forest.rewrite().is_some()
                || forest.merges().iter().any(|merge| self.is_worth(merge))
                || self.pool_needs_upkeep()?)
        };
        needs().unwrap_or_else(|failure| {
            tracing::warn!(%failure, "could not tell whether there is something to do in the background");
            false
        })
    }

    /// Does what is to be done in the background. Where another process is at it already that one looks once more.
    pub async fn maintain(&self, progress: &Arc<dyn Progress>) -> Result<Maintained, Failure> {
        let mut done = Maintained::default();
        self.raise(AGAIN)?;
        while self.flag(AGAIN).exists() {
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
        // A machine that cannot be made must not keep the disks from being looked after.
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

    /// Merges and shortens until there is nothing left to. Returns whether nothing had to be left for later.
    async fn keep_chains(&self, done: &mut Maintained) -> Result<bool, Failure> {
        let mut busy = Vec::new();
        loop {
            let forest = self.meta.read(Forest::read)?;
            let merge = forest.merges().into_iter().find(|merge| {
                merge.writer.is_none_or(|writer| !busy.contains(&writer)) && self.is_worth(merge)
            });
            if let Some(Merge { writer: Some(writer), .. }) = merge {
                // Nobody can rewrite a file that is written to: it is frozen, and merged in the next round.
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

    /// Rewrites a frozen disk so that it holds everything down to and with `through`.
    async fn take_over(&self, disk: DiskId, through: DiskId, span: u32) -> Result<(), Failure> {
        let disks = self.installation.shared_disks();
        let path = self.installation.disk_path(disk);
        let Some(onto) = disks.parent(&self.installation.disk_path(through))? else {
            let message = format!("the disk {through} stands on nothing, which no layer does");
            return Err(Failure::new(Code::DataDamaged, message));
        };
        // Should the disk be removed meanwhile, what was written goes too: the database does not know it then.
        let intent = Intent { disks: vec![disk], collapse: Some(disk), ..Intent::default() };
        let undertaking = self.undertake("collapse", None, intent)?;
        niced(move || disks.collapse(&path, &onto)).await??;
        let parent = self.parent_of(disk)?;
        undertaking.finish(|tx| tx.set_disk_parent(disk, parent, span))
    }

    /// Whether merging frees enough for what it copies. The length of chains is not looked at here.
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
        // A disk that is being written to may make no sense for a moment.
        measured.is_ok()
            && match merge.writer {
                None => copied <= SMALL || freed * COPIES_PER_FREED >= copied,
                Some(_) => freed >= WORTH_A_LAYER && freed * COPIES_PER_FREED >= copied,
            }
    }

    /// Makes whoever is asked next say that there is something to do.
    pub(super) fn leave_for_later(&self) -> Result<(), Failure> {
        self.raise(LEFT)
    }

    fn take_turn(&self) -> Result<Option<File>, Failure> {
        let taken = || -> io::Result<Option<File>> {
            let mut options = OpenOptions::new();
            let file = options.create(true).truncate(false).write(true).mode(0o600).open(self.flag(TURN))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => Ok(Some(file)),
                Err(Errno::WOULDBLOCK) => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        taken().map_err(|error| self.installation.io("begin with the maintenance", error))
    }

    fn raise(&self, flag: &str) -> Result<(), Failure> {
        fs::create_dir_all(self.installation.paths.maintenance_dir())
            .and_then(|()| fs::write(self.flag(flag), ""))
            .map_err(|error| self.installation.io("note what is to be done", error))
    }

    /// Returns whether the flag was raised.
    fn lower(&self, flag: &str) -> Result<bool, Failure> {
        match fs::remove_file(self.flag(flag)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.installation.io("note what was done", error)),
        }
    }

    fn flag(&self, name: &str) -> std::path::PathBuf {
        self.installation.paths.maintenance_dir().join(name)
    }
}

/// Does something on a thread that gives way to every other. Machines are not started on it: what starts a process
/// hands down how nice it is, for good.
async fn niced<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let failed = |error: String| Failure::new(Code::Internal, format!("a background task failed: {error}"));
    let (sender, done) = tokio::sync::oneshot::channel();
    let work = move || {
        // If it must not be nice it is merely rude.
        let _ = rustix::process::setpriority_process(None, NICE);
        let _ = sender.send(work());
    };
    let spawned = std::thread::Builder::new().name("maintenance".to_owned()).spawn(work);
    spawned.map_err(|error| failed(error.to_string()))?;
    done.await.map_err(|error| failed(error.to_string()))
}
