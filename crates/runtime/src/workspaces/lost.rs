//! Disks and memory images that the database does not know: moved to `lost/`, never deleted.
//!
//! When an installation is opened its database is compared with the marker beside the disks:
//!
//! ```text
//! the same database, not behind  ──► familiar: nothing to do
//! the same database, but older   ──► behind: workspaces are brought up to their records, which are newer
//! another or a new database      ──► stranger: what it knows is taken back from lost/, what it does not know goes there
//! ```
//!
//! `agentiso recover` takes workspaces back from `lost/`. Disks in a ZFS pool stay where they are: what is in `disks/`
//! is only a link, and a volume without its link would be removed.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentiso_core::ports::Freezing;
use agentiso_core::{Code, DiskId, Failure, MemoryId, WorkspaceId};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use uuid::Uuid;

use super::Workspaces;
use super::record::{Marker, Record};
use super::recover::{end, qemus_on};
use crate::hold::disk_id_of;

/// How long somebody who makes disks is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);

/// How the database compares with the files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    Familiar,
    Behind,
    Stranger,
}

impl Workspaces {
    /// Compares the database with the files, and sees to it that nothing is taken for garbage because the database is
    /// new, older or another one.
    pub(super) fn meet_files(&self) -> Result<(), Failure> {
        if self.standing()? == Standing::Familiar {
            return self.write_marker();
        }
        let deadline = Instant::now() + PATIENCE;
        let _rest = loop {
            match self.installation.disks_at_rest()? {
                Some(rest) => break rest,
                None if Instant::now() > deadline => {
                    let message = "the database does not fit the disks, which another command is at work on";
                    return Err(
                        Failure::new(Code::Timeout, message).with_remedy("try again when it has ended")
                    );
                }
                None => std::thread::sleep(RETRY),
            }
        };
        // Somebody else may have seen to it while we waited.
        match self.standing()? {
            Standing::Familiar => return Ok(()),
            Standing::Behind => {
                tracing::warn!("state.db is older than the disks: workspaces are read from their records");
                self.catch_up()?;
            }
            Standing::Stranger => {
                tracing::warn!(
                    "state.db does not belong to the disks: what it does not know is kept in lost/"
                );
                self.take_back_known()?;
            }
        }
        self.set_aside_unknown()?;
        self.write_marker()
    }

    pub(super) fn standing(&self) -> Result<Standing, Failure> {
        let dir = self.installation.paths.disks_dir();
        let marker = Marker::read(&dir)
            .map_err(|error| self.installation.io("read which database the disks belong to", error))?;
        let (identity, knows_any) = self.meta.read(|read| {
            let knows_any = !read.disks()?.is_empty() || !read.memories()?.is_empty();
            Ok((read.identity()?, knows_any))
        })?;
        Ok(match marker {
            Some(marker) if marker.database != identity.database => Standing::Stranger,
            Some(marker) if marker.generation > identity.generation => Standing::Behind,
            Some(_) => Standing::Familiar,
            // Versions before this one wrote no marker.
            None if knows_any => Standing::Familiar,
            None if self.has_disks_or_memory()? => Standing::Stranger,
            None => Standing::Familiar,
        })
    }

    fn has_disks_or_memory(&self) -> Result<bool, Failure> {
        let failed = |error| self.installation.io("look at the disks", error);
        let disks = entries(&self.installation.paths.disks_dir()).map_err(failed)?;
        let memory = entries(&self.installation.paths.memory_dir()).map_err(failed)?;
        Ok(!memory.is_empty() || disks.iter().any(|path| disk_id_of(path).is_some()))
    }

    /// Brings workspaces up to records that are newer than the database.
    fn catch_up(&self) -> Result<(), Failure> {
        let identity = self.meta.read(|read| read.identity())?;
        let mut newest = identity.generation;
        for record in self.records(&self.installation.paths.disks_dir())? {
            if record.database != identity.database || record.generation <= identity.generation {
                continue;
            }
            newest = newest.max(record.generation);
            // One that cannot be brought up to date keeps its files: they are set aside.
            if let Err(failure) = self.adopt(&record) {
                tracing::warn!(%failure, workspace = %record.name, "could not bring it up to its record");
            }
        }
        let marker = Marker::read(&self.installation.paths.disks_dir())
            .map_err(|error| self.installation.io("read which database the disks belong to", error))?;
        let newest = newest.max(marker.map_or(0, |marker| marker.generation));
        Ok(self.meta.write(|tx| tx.raise_generation(newest))?)
    }

    /// The readable records of a directory.
    pub(super) fn records(&self, dir: &Path) -> Result<Vec<Record>, Failure> {
        let failed = |error| self.installation.io("look for records of workspaces", error);
        let mut found = Vec::new();
        for path in entries(dir).map_err(failed)? {
            if Record::workspace_of(&path).is_none() {
                continue;
            }
            match Record::read(&path) {
                Ok(record) => found.push(record),
                Err(error) => tracing::warn!(%error, path = %path.display(), "this record cannot be read"),
            }
        }
        found.sort_by_key(|record| (record.created, record.id));
        Ok(found)
    }

    /// Takes back from `lost/` what the database knows: it is the right one again.
    fn take_back_known(&self) -> Result<(), Failure> {
        let (disks, memories, packs, workspaces) = self
            .meta
            .read(|read| Ok((read.disks()?, read.memories()?, read.packs()?, read.workspaces()?)))?;
        for disk in disks {
            self.take_back_disk(disk.id)?;
        }
        for memory in &memories {
            self.take_back_base(&memory.base)?;
        }
        for id in memories.iter().map(|memory| memory.id).chain(packs) {
            self.take_back_memory(id)?;
        }
        let (lost, dir) = (self.lost_disks_dir(), self.installation.paths.disks_dir());
        for workspace in workspaces {
            self.take_back(&Record::path(&lost, workspace.id), &Record::path(&dir, workspace.id))?;
        }
        Ok(())
    }

    /// Moves everything that the database does not know, and that nothing it knows stands on, to `lost/`.
    fn set_aside_unknown(&self) -> Result<(), Failure> {
        let failed = |error| self.installation.io("look at the disks", error);
        let paths = &self.installation.paths;
        let (disks, memories, packs, workspaces) = self
            .meta
            .read(|read| Ok((read.disks()?, read.memories()?, read.packs()?, read.workspaces()?)))?;
        let mut needed = self.in_hand_of_the_living()?;
        for disk in disks {
            self.add_chain(disk.id, &mut needed)?;
        }
        // A machine that nobody knows would go on writing to its disk, also when the disk was taken back.
        for (pid, disk) in qemus_on(&paths.disks_dir()) {
            if !needed.contains(&disk) {
                tracing::warn!(pid, "ending a machine whose workspace the database does not know");
                end(pid);
            }
        }
        self.remove_unknown_berths()?;
        let workspaces: HashSet<WorkspaceId> = workspaces.into_iter().map(|workspace| workspace.id).collect();
        for path in entries(&paths.disks_dir()).map_err(failed)? {
            let unknown = match (disk_id_of(&path), Record::workspace_of(&path)) {
                (Some(disk), _) => !needed.contains(&disk),
                (None, Some(workspace)) => !workspaces.contains(&workspace),
                (None, None) => false,
            };
            if unknown {
                self.set_aside(&path, &self.lost_disks_dir())?;
            }
        }
        let memories: HashSet<MemoryId> = memories.into_iter().map(|memory| memory.id).chain(packs).collect();
        for path in entries(&paths.memory_dir()).map_err(failed)? {
            let id = path.file_name().and_then(|name| Uuid::try_parse(name.to_str()?).ok());
            if id.is_some_and(|id| !memories.contains(&MemoryId::from_uuid(id))) {
                self.set_aside(&path, &paths.lost_dir().join("memory"))?;
            }
        }
        for base in self.unneeded_bases()? {
            self.set_aside(&base, &paths.lost_dir().join("bases"))?;
        }
        Ok(())
    }

    /// A disk and everything it stands on, as the files say.
    fn add_chain(&self, disk: DiskId, needed: &mut HashSet<DiskId>) -> Result<(), Failure> {
        let mut next = Some(disk);
        while let Some(disk) = next.filter(|&disk| needed.insert(disk)) {
            next = match self.parent_of(disk) {
                Ok(parent) => parent,
                // What is missing stands on nothing, and what cannot be read is not touched.
                Err(_) if !self.installation.disk_path(disk).exists() => None,
                Err(failure) => return Err(failure),
            };
        }
        Ok(())
    }

    /// Moves a file or directory to a directory below `lost/`. What cannot be moved there stays where it is.
    pub(super) fn set_aside(&self, path: &Path, to: &Path) -> Result<(), Failure> {
        if self.installation.disks().extension() == "zvol" && disk_id_of(path).is_some() {
            return Ok(());
        }
        let Some(name) = path.file_name() else { return Ok(()) };
        let moved = fs::create_dir_all(to).and_then(|()| move_there(path, &to.join(name)));
        match moved {
            Ok(true) => {
                tracing::warn!(path = %path.display(), "moved to lost/: the database does not know it")
            }
            Ok(false) => tracing::warn!(path = %path.display(), "the database does not know it; it stays"),
            Err(error) => return Err(self.installation.io("move what nobody knows to lost/", error)),
        }
        Ok(())
    }

    pub(super) fn take_back_disk(&self, disk: DiskId) -> Result<(), Failure> {
        let to = self.installation.disk_path(disk);
        self.take_back(&self.lost_disk_path(disk), &to)
    }

    pub(super) fn take_back_memory(&self, memory: MemoryId) -> Result<(), Failure> {
        let name = memory.to_string();
        let paths = &self.installation.paths;
        self.take_back(&paths.lost_dir().join("memory").join(&name), &paths.memory_dir().join(&name))
    }

    pub(super) fn take_back_base(&self, name: &str) -> Result<(), Failure> {
        let paths = &self.installation.paths;
        self.take_back(&paths.lost_dir().join("bases").join(name), &paths.bases_dir().join(name))
    }

    fn take_back(&self, from: &Path, to: &Path) -> Result<(), Failure> {
        let failed = |error| self.installation.io("take something back from lost/", error);
        let is_there = |path: &Path| match fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        if is_there(to).map_err(failed)? || !is_there(from).map_err(failed)? {
            return Ok(());
        }
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        move_there(from, to).map(drop).map_err(failed)
    }

    pub(super) fn lost_disks_dir(&self) -> PathBuf {
        self.installation.paths.lost_dir().join("disks")
    }

    pub(super) fn lost_disk_path(&self, disk: DiskId) -> PathBuf {
        self.lost_disks_dir().join(format!("{disk}.{}", self.installation.disks().extension()))
    }

    /// The disks that files in `lost/` stand on.
    pub(super) fn lost_footing(&self) -> Result<HashSet<DiskId>, Failure> {
        let mut footing = HashSet::new();
        if self.installation.disks().freezing() == Freezing::Copy {
            return Ok(footing);
        }
        let failed = |error| self.installation.io("look at what is in lost/", error);
        for path in entries(&self.lost_disks_dir()).map_err(failed)? {
            if disk_id_of(&path).is_some() {
                let parent = self.installation.disks().parent(&path)?;
                footing.extend(parent.and_then(|source| disk_id_of(source.path())));
            }
        }
        Ok(footing)
    }

    /// How many files are in `lost/`, by what they are.
    pub(crate) fn lost_files(home: &Path) -> io::Result<HashMap<&'static str, usize>> {
        let mut counts = HashMap::new();
        for kind in ["disks", "memory", "bases"] {
            let found = entries(&home.join("lost").join(kind))?;
            let count = found.iter().filter(|path| Record::workspace_of(path).is_none()).count();
            if count > 0 {
                counts.insert(kind, count);
            }
        }
        Ok(counts)
    }
}

/// Moves something that nothing may be replaced by. Returns false if it has to stay where it is.
fn move_there(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::XDEV | Errno::NOTEMPTY) => Ok(false),
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_err() => {
            fs::rename(from, to).map(|()| true)
        }
        Err(error) => Err(error.into()),
    }
}

/// What is in a directory; nothing if it is not there.
pub(super) fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(Vec::new())
        }
        other => other?.map(|entry| Ok(entry?.path())).collect(),
    }
}
