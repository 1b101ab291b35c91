//! Removing unreferenced disks, memory images, bases and machine directories.
//!
//! Removal takes the exclusive lock on the disks, so that nobody creates files at the same time. Files are listed before
//! the database is read: a file that is created later was announced before, and is found there. Unknown files that may
//! contain a workspace's data are moved to `lost/` and never deleted.
#![expect(clippy::disallowed_methods, reason = "waits while others create disks, `in_place`")]

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentiso_blocking::in_place;
use agentiso_core::ports::is_partial_name;
use agentiso_core::{DiskId, Failure, MemoryId, WorkspaceId};
use agentiso_meta::{Operation, OperationId};
use agentiso_vmm::memory::PageMap;
use uuid::Uuid;

use super::Workspaces;
use super::files::{entries, remove_file};
use super::intent::{Intent, MachineDirName};
use super::machine::MachineState;
use super::record::is_partial_record;
use crate::disk_store::DisksAtRest;
use crate::pinned::{disk_id_of, is_pinned};

/// How long to wait for others who create disks. A fork takes longer, and is not waited for.
const PATIENCE: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_millis(5);

impl Workspaces {
    /// Removes unreferenced disks, memory images and bases. If others are creating disks, it is left to the maintenance.
    pub(crate) fn remove_unneeded(&self) -> Result<(), Failure> {
        self.remove_unneeded_after(&[])
    }

    /// The same after recovering `done`: what only those operations refer to is removed too.
    pub(super) fn remove_unneeded_after(&self, done: &[OperationId]) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        in_place(|| {
            loop {
                match self.installation.disks_at_rest()? {
                    Some(rest) => return self.remove_at_rest(&rest, done),
                    None if Instant::now() > deadline => return self.leave_for_later(),
                    None => std::thread::sleep(RETRY),
                }
            }
        })
    }

    /// The same without waiting. Returns false if others are creating disks.
    pub(super) fn remove_unneeded_if_at_rest(&self) -> Result<bool, Failure> {
        in_place(|| match self.installation.disks_at_rest()? {
            Some(rest) => self.remove_at_rest(&rest, &[]).map(|()| true),
            None => Ok(false),
        })
    }

    fn remove_at_rest(&self, _rest: &DisksAtRest, done: &[OperationId]) -> Result<(), Failure> {
        self.remove_unneeded_disks(done)?;
        self.remove_unneeded_memories()?;
        for base in self.unneeded_bases()? {
            remove_file(&base).map_err(|error| self.installation.io("remove a memory base", error))?;
        }
        self.remove_unknown_disks(done)?;
        self.installation.sweep_disks();
        self.remove_unknown_memories()
    }

    /// The intents of living processes' operations.
    fn in_hand(operations: &[Operation], done: &[OperationId]) -> Result<Vec<Intent>, Failure> {
        let living = operations.iter().filter(|one| one.owner.is_alive() && !done.contains(&one.id));
        living.map(Intent::of).collect()
    }

    /// The disks that living processes create or work on.
    pub(super) fn in_hand_of_the_living(&self) -> Result<HashSet<DiskId>, Failure> {
        let operations = self.meta.read(|read| read.operations())?;
        Ok(Self::in_hand(&operations, &[])?.into_iter().flat_map(|intent| intent.disks).collect())
    }

    /// Removes or moves disk files that the database does not know. Partial disks and pinned template disks contain no
    /// user data and are removed. Any other belonged to a workspace and is moved to `lost/`.
    fn remove_unknown_disks(&self, done: &[OperationId]) -> Result<(), Failure> {
        // List the files first: whatever is created later was announced before.
        let files = entries(&self.installation.paths.disks_dir())
            .map_err(|error| self.installation.io("list the disks", error))?;
        let (disks, operations) = self.meta.read(|read| Ok((read.disks()?, read.operations()?)))?;
        let busy: HashSet<DiskId> =
            Self::in_hand(&operations, done)?.into_iter().flat_map(|intent| intent.disks).collect();
        let known: HashSet<DiskId> = disks.into_iter().map(|disk| disk.id).collect();
        for path in files {
            // Left by a process that was killed while it wrote a record. One that is still writing tries again later.
            if is_partial_record(&path) {
                remove_file(&path)
                    .map_err(|error| self.installation.io("remove an unfinished record", error))?;
                continue;
            }
            let Some((id, is_whole)) = disk_of(&path) else { continue };
            let needed = busy.contains(&id) || (is_whole && known.contains(&id));
            if needed {
                continue;
            }
            if is_whole && (!is_pinned(id) || self.lost_footing()?.contains(&id)) {
                self.set_aside(&path, &self.lost_disks_dir())?;
            } else {
                remove_file(&path).map_err(|error| self.installation.io("remove a disk", error))?;
            }
        }
        Ok(())
    }

    /// The same for memory images. A process that writes one has the shared lock.
    fn remove_unknown_memories(&self) -> Result<(), Failure> {
        let failed = |error| self.installation.io("remove a memory image", error);
        let found = self.memory().list().map_err(failed)?;
        let known: HashSet<MemoryId> =
            self.meta.read(|read| read.memories())?.into_iter().map(|memory| memory.id).collect();
        found.into_iter().filter(|id| !known.contains(id)).try_for_each(|pack| self.settle_pack(pack))
    }

    /// The same for machine directories and the lock files of removed workspaces.
    pub(super) fn remove_unknown_machine_dirs(&self) -> Result<(), Failure> {
        in_place(|| self.remove_unknown_machine_dirs_blocking())
    }

    fn remove_unknown_machine_dirs_blocking(&self) -> Result<(), Failure> {
        let dir = self.installation.paths.workspaces_dir();
        let failed = |error| self.installation.io("remove a machine's directory", error);
        let mut found: Vec<MachineDirName> = Vec::new();
        for workspace in entries(&dir).map_err(failed)? {
            let Some(id) = workspace.file_stem().and_then(uuid_of) else { continue };
            if workspace.extension().is_some_and(|extension| extension == "lock") {
                let id = WorkspaceId::from_uuid(id);
                if self.meta.read(|read| read.workspace_if_known(id))?.is_none() {
                    remove_file(&workspace).map_err(failed)?;
                }
                continue;
            }
            let machines = entries(&workspace).map_err(failed)?;
            let machines = machines.iter().filter_map(|path| path.file_name().and_then(uuid_of));
            found.extend(
                machines.map(|machine| MachineDirName { workspace: WorkspaceId::from_uuid(id), machine }),
            );
        }
        let operations = self.meta.read(|read| read.operations())?;
        let busy = Self::in_hand(&operations, &[])?.into_iter().flat_map(|intent| intent.machine_dirs);
        let known: Vec<MachineDirName> =
            self.known_machines()?.into_iter().map(|machine| machine.dir).chain(busy).collect();
        found
            .iter()
            .filter(|name| !known.contains(name))
            .try_for_each(|name| name.remove(&dir))
            .map_err(failed)
    }

    fn remove_unneeded_disks(&self, done: &[OperationId]) -> Result<(), Failure> {
        loop {
            let (mut unneeded, operations) =
                self.meta.read(|read| Ok((read.unneeded_disks()?, read.operations()?)))?;
            // A machine that was just taken from the pool is not referenced for a moment.
            let busy = Self::in_hand(&operations, done)?;
            unneeded.retain(|disk| !busy.iter().any(|intent| intent.disks.contains(&disk.id)));
            if unneeded.is_empty() {
                return Ok(());
            }
            for disk in unneeded {
                // The file first: a row without a file is removed by the next sweep, a file without a row is kept.
                remove_file(&self.installation.disk_path(disk.id))
                    .map_err(|error| self.installation.io("remove a disk", error))?;
                self.meta.write(|tx| tx.remove_disk(disk.id))?;
            }
        }
    }

    fn remove_unneeded_memories(&self) -> Result<(), Failure> {
        for memory in self.meta.read(|read| read.unneeded_memories())? {
            let packs = self.meta.read(|read| read.packs_of(memory.id))?;
            self.meta.write(|tx| tx.remove_memory(memory.id))?;
            for pack in packs.into_iter().chain([memory.id]) {
                self.settle_pack(pack)?;
            }
        }
        Ok(())
    }

    /// Removes a pack's unreferenced pages, unless the image it was written with still exists.
    fn settle_pack(&self, pack: MemoryId) -> Result<(), Failure> {
        if self.meta.read(|read| read.memory_if_known(pack))?.is_some() {
            return Ok(());
        }
        let users = self.maps_using(pack)?;
        self.memory()
            .remove(pack, &users)
            .map_err(|error| self.installation.io("remove a memory image", error))
    }

    /// The maps of all images that refer to a pack.
    pub(crate) fn maps_using(&self, pack: MemoryId) -> Result<Vec<PageMap>, Failure> {
        let users = self.meta.read(|read| read.memories_using(pack))?;
        let maps = users
            .into_iter()
            .map(|id| self.memory().open(id).map(|image| image.map))
            .collect::<io::Result<_>>();
        maps.map_err(|error| self.installation.io("read a memory image", error))
    }

    /// The memory bases that no machine and no memory image refers to.
    pub(super) fn unneeded_bases(&self) -> Result<Vec<PathBuf>, Failure> {
        // List the files first, so that a base that is created later is not among them.
        let mut bases = in_place(|| entries(&self.installation.paths.bases_dir()))
            .map_err(|error| self.installation.io("list the memory bases", error))?;
        if !bases.is_empty() {
            let needed = self.needed_bases()?;
            bases.retain(|base| {
                base.file_name().is_none_or(|base| !needed.iter().any(|name| **name == *base))
            });
        }
        Ok(bases)
    }

    fn needed_bases(&self) -> Result<Vec<String>, Failure> {
        let (memories, workspaces, pool) =
            self.meta.read(|read| Ok((read.memories()?, read.workspaces()?, read.pool()?)))?;
        let mut needed: Vec<String> = memories.into_iter().map(|memory| memory.base).collect();
        let machines = workspaces
            .iter()
            .filter_map(|workspace| workspace.machine())
            .chain(pool.iter().map(|one| &one.machine));
        for machine in machines {
            needed.push(Self::base_name(&MachineState::from_value(machine)?.record.memory));
        }
        Ok(needed)
    }
}

/// The disk of a file, and whether the file is complete. `None` if it is not a disk.
fn disk_of(path: &Path) -> Option<(DiskId, bool)> {
    let name = path.file_name()?;
    if is_partial_name(name) {
        let inner = name.to_str()?.strip_prefix('.')?.strip_suffix(".partial")?;
        return Some((disk_id_of(Path::new(inner))?, false));
    }
    Some((disk_id_of(path)?, true))
}

fn uuid_of(name: &OsStr) -> Option<Uuid> {
    Uuid::try_parse(name.to_str()?).ok()
}
