//! Removing what nobody needs any more.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use agentiso_core::{Failure, MemoryId};
use agentiso_vmm::memory::PageMap;

use super::Workspaces;
use super::machine::MachineState;

/// How long somebody who makes disks is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(20);

impl Workspaces {
    /// Removes disks, memory images and bases that nothing needs. While others make disks it gives up after a while;
    /// whoever tidies next removes what stayed.
    pub(crate) fn remove_unneeded(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let _rest = loop {
            match self.installation.disks_at_rest()? {
                Some(rest) => break rest,
                None if Instant::now() > deadline => return Ok(()),
                None => std::thread::sleep(RETRY),
            }
        };
        self.remove_unneeded_disks()?;
        self.remove_unneeded_memories()?;
        let needed = self.needed_bases()?;
        self.remove_unneeded_bases(&needed)
            .map_err(|error| self.installation.io("remove what memory images stood on", error))
    }

    fn remove_unneeded_disks(&self) -> Result<(), Failure> {
        loop {
            let unneeded = self.meta.read(|read| read.unneeded_disks())?;
            if unneeded.is_empty() {
                return Ok(());
            }
            for disk in unneeded {
                // The file first: a row without a file is removed by whoever comes next, a file without a row by
                // nobody.
                gone(fs::remove_file(self.installation.disk_path(disk.id)))
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

    /// Keeps of a pack what images refer to, and the image it was written with.
    fn settle_pack(&self, pack: MemoryId) -> Result<(), Failure> {
        let owner_is_there = self.meta.read(|read| read.memory(pack)).is_ok();
        if owner_is_there {
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

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
