//! Disks and memory images that the database does not know: moved to `lost/`, never deleted.
//!
//! When an installation is opened, its database is compared with the marker in the directory of disks:
//!
//! ```text
//! same database, not older    ──► matching: nothing to do
//! same database, but older    ──► behind: workspaces are updated from their records, which are newer
//! another or a new database   ──► foreign: files it knows are moved back from lost/, files it does not know go there
//! ```
//!
//! If the comparison fails (the marker, a record or a directory cannot be read), opening fails and nothing is moved.
//! `agentiso recover` recovers workspaces from `lost/`. ZFS volumes are not moved: the file in `disks/` is only a link,
//! and a volume without its link would be removed.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`")]

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
use super::files::{entries, exists};
use super::record::{Marker, Record};
use super::strays::{end, qemus_on};
use crate::pinned::disk_id_of;

/// How long to wait for others who create disks.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);

/// How the database compares with the files.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Match {
    Matching,
    Behind,
    Foreign,
}

impl Workspaces {
    /// Compares the database with the files. Must run before anything is removed: a database that is new, older or from
    /// another installation does not know all files.
    pub(super) fn match_files(&self) -> Result<(), Failure> {
        if self.match_state()? == Match::Matching {
            return self.write_marker();
        }
        let deadline = Instant::now() + PATIENCE;
        let _rest = loop {
            match self.installation.disks_at_rest()? {
                Some(rest) => break rest,
                None if Instant::now() > deadline => {
                    let message =
                        "the database does not match the disks, and another process is working on them";
                    return Err(
                        Failure::new(Code::Timeout, message).with_remedy("try again when it has finished")
                    );
                }
                None => std::thread::sleep(RETRY),
            }
        };
        // Another process may have done it in the meantime.
        match self.match_state()? {
            Match::Matching => return Ok(()),
            Match::Behind => {
                tracing::warn!("state.db is older than the disks: updating workspaces from their records");
                self.catch_up()?;
            }
            Match::Foreign => {
                tracing::warn!(
                    "state.db does not belong to the disks: moving what it does not know to lost/"
                );
                self.take_back_known()?;
            }
        }
        self.set_aside_unknown()?;
        self.write_marker()
    }

    pub(super) fn match_state(&self) -> Result<Match, Failure> {
        let dir = self.installation.paths.disks_dir();
        let marker = Marker::read(&dir)
            .map_err(|error| self.installation.io("read the marker of the database", error))?;
        let (identity, knows_any) = self.meta.read(|read| {
            let knows_any = !read.disks()?.is_empty() || !read.memories()?.is_empty();
            Ok((read.identity()?, knows_any))
        })?;
        Ok(match marker {
            Some(marker) if marker.database != identity.database => Match::Foreign,
            Some(marker) if marker.generation > identity.generation => Match::Behind,
            Some(_) => Match::Matching,
            // Earlier versions wrote no marker.
            None if knows_any => Match::Matching,
            None if self.has_disks_or_memory()? => Match::Foreign,
            None => Match::Matching,
        })
    }

    fn has_disks_or_memory(&self) -> Result<bool, Failure> {
        let failed = |error| self.installation.io("list the disks", error);
        let disks = entries(&self.installation.paths.disks_dir()).map_err(failed)?;
        let memory = entries(&self.installation.paths.memory_dir()).map_err(failed)?;
        Ok(!memory.is_empty() || disks.iter().any(|path| disk_id_of(path).is_some()))
    }

    /// Updates workspaces from records that are newer than the database.
    fn catch_up(&self) -> Result<(), Failure> {
        let identity = self.meta.read(|read| read.identity())?;
        let mut newest = identity.generation;
        for record in self.records(&self.installation.paths.disks_dir())? {
            if record.database != identity.database || record.generation <= identity.generation {
                continue;
            }
            newest = newest.max(record.generation);
            // If that fails its files are kept: they are moved to `lost/`.
            if let Err(failure) = self.adopt(&record) {
                tracing::warn!(%failure, workspace = %record.name, "could not update this workspace from its record");
            }
        }
        let marker = Marker::read(&self.installation.paths.disks_dir())
            .map_err(|error| self.installation.io("read the marker of the database", error))?;
        let newest = newest.max(marker.map_or(0, |marker| marker.generation));
        Ok(self.meta.write(|tx| tx.raise_generation(newest))?)
    }

    /// The records in a directory. Damaged ones are skipped; one that cannot be read is an error, because going on
    /// without it could set its workspace's newest disks aside.
    pub(super) fn records(&self, dir: &Path) -> Result<Vec<Record>, Failure> {
        let failed = |error| self.installation.io("list the records of workspaces", error);
        let mut found = Vec::new();
        for path in entries(dir).map_err(failed)? {
            if Record::workspace_of(&path).is_none() {
                continue;
            }
            match Record::read(&path) {
                Ok(record) => found.push(record),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound) =>
                {
                    tracing::warn!(%error, path = %path.display(), "skipping a damaged record");
                }
                Err(error) => {
                    let message = format!("could not read the record {}: {error}", path.display());
                    return Err(Failure::new(Code::of_io(&error), message)
                        .with_remedy("check the disk and its permissions, or move the record elsewhere"));
                }
            }
        }
        found.sort_by_key(|record| (record.created, record.id));
        Ok(found)
    }

    /// Moves files that the database knows back from `lost/`: the original database was put back.
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

    /// Moves all files to `lost/` that the database does not know, except disks that known disks read through.
    fn set_aside_unknown(&self) -> Result<(), Failure> {
        let failed = |error| self.installation.io("list the disks", error);
        let paths = &self.installation.paths;
        let (disks, memories, packs, workspaces) = self
            .meta
            .read(|read| Ok((read.disks()?, read.memories()?, read.packs()?, read.workspaces()?)))?;
        let mut needed = self.in_hand_of_the_living()?;
        for disk in disks {
            self.add_chain(disk.id, &mut needed)?;
        }
        // An unknown machine would continue to write to its disk, even after the disk was recovered.
        for (pid, disk) in qemus_on(&paths.disks_dir()).map_err(failed)? {
            if !needed.contains(&disk) {
                tracing::warn!(pid, "killing a QEMU whose workspace the database does not know");
                end(pid).map_err(|error| self.installation.io("end a QEMU that no workspace has", error))?;
            }
        }
        self.remove_unknown_machine_dirs()?;
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

    /// Adds a disk and everything it reads through, as recorded in the files.
    fn add_chain(&self, disk: DiskId, needed: &mut HashSet<DiskId>) -> Result<(), Failure> {
        let mut next = Some(disk);
        while let Some(disk) = next.filter(|&disk| needed.insert(disk)) {
            let path = self.installation.disk_path(disk);
            let found = exists(&path).map_err(|error| self.installation.io("look for a disk", error))?;
            next = if found { self.parent_of(disk)? } else { None };
        }
        Ok(())
    }

    /// Moves a file or directory to a directory below `lost/`. If the target exists or is on another file system, it stays
    /// where it is.
    pub(super) fn set_aside(&self, path: &Path, to: &Path) -> Result<(), Failure> {
        if self.installation.disks().extension() == "zvol" && disk_id_of(path).is_some() {
            return Ok(());
        }
        let Some(name) = path.file_name() else { return Ok(()) };
        let moved = fs::create_dir_all(to).and_then(|()| move_there(path, &to.join(name)));
        match moved {
            Ok(true) => {
                tracing::warn!(path = %path.display(), "moved to lost/: the database does not know this file")
            }
            Ok(false) => {
                tracing::warn!(path = %path.display(), "the database does not know this file, and it cannot be moved")
            }
            Err(error) => return Err(self.installation.io("move an unknown file to lost/", error)),
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
        let failed = |error| self.installation.io("move a file back from lost/", error);
        if exists(to).map_err(failed)? || !exists(from).map_err(failed)? {
            return Ok(());
        }
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        match move_there(from, to) {
            Ok(true) => Ok(()),
            Ok(false) => Err(failed(io::Error::other("lost/ is on another file system"))),
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn lost_disks_dir(&self) -> PathBuf {
        self.installation.paths.lost_dir().join("disks")
    }

    pub(super) fn lost_disk_path(&self, disk: DiskId) -> PathBuf {
        self.lost_disks_dir().join(format!("{disk}.{}", self.installation.disks().extension()))
    }

    /// The disks that files in `lost/` read through.
    pub(super) fn lost_footing(&self) -> Result<HashSet<DiskId>, Failure> {
        let mut footing = HashSet::new();
        if self.installation.disks().freezing() == Freezing::Copy {
            return Ok(footing);
        }
        let failed = |error| self.installation.io("list lost/", error);
        for path in entries(&self.lost_disks_dir()).map_err(failed)? {
            if disk_id_of(&path).is_some() {
                let parent = self.installation.disks().parent(&path)?;
                footing.extend(parent.and_then(|source| disk_id_of(source.path())));
            }
        }
        Ok(footing)
    }

    /// The number of files in `lost/`, by kind.
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

/// Moves a file without replacing another. Returns false if the target exists or is on another file system.
fn move_there(from: &Path, to: &Path) -> io::Result<bool> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::XDEV | Errno::NOTEMPTY) => Ok(false),
        // The file system does not support `RENAME_NOREPLACE`.
        Err(Errno::INVAL | Errno::NOSYS) => match exists(to)? {
            true => Ok(false),
            false => fs::rename(from, to).map(|()| true),
        },
        Err(error) => Err(error.into()),
    }
}
