//! Adding workspaces to the database from their records.
//!
//! A record is adopted if all disks its workspace reads through exist, in `disks/` or in `lost/`. Snapshots whose disks
//! are missing are left out; snapshots whose memory is missing lose only the memory. Rows are only added or updated:
//! what the database has and the record does not is kept.
//!
//! Only a file that was looked for and does not exist is missing. If a directory cannot be read, the record is not
//! adopted and stays where it is.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;

use agentiso_blocking::in_place;
use agentiso_core::{Code, DiskId, Failure, NetworkState, WorkspaceName};
use agentiso_meta::{Disk, Lineage, Memory, MetaError, Snapshot, Tx, Workspace, WorkspaceState};
use serde::Serialize;

use super::Workspaces;
use super::files::{entries, exists, remove_file};
use super::record::{Record, RecordedMemory, RecordedSnapshot};
use super::strays::{end, qemus_on};
use crate::pinned::disk_id_of;

/// The result of `agentiso recover`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Recovery {
    /// Whether the workspaces were recovered, or only listed.
    pub applied: bool,
    /// Workspaces that have a record in `lost/`.
    pub workspaces: Vec<Recovered>,
    /// Files in `lost/disks` that belong to none of these workspaces.
    pub other_disks: Vec<String>,
}

/// A workspace in `lost/`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Recovered {
    /// Its id.
    pub id: String,
    /// Its name in the record.
    pub name: String,
    /// Its name now, if it was recovered: its old name may be taken.
    pub now: Option<String>,
    /// The image it was created from.
    pub image: String,
    /// Its snapshots that can be recovered.
    pub snapshots: Vec<String>,
    /// Snapshots whose disk is missing.
    pub lost_snapshots: Vec<String>,
    /// Snapshots that are recovered without their memory.
    pub without_memory: Vec<String>,
    /// Why it cannot be recovered.
    pub problem: Option<String>,
}

/// A disk and its backing disk.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Link {
    disk: DiskId,
    parent: Option<DiskId>,
}

/// The part of a record that can be recovered.
struct Plan<'a> {
    /// Every disk, each after its backing disk.
    links: Vec<Link>,
    snapshots: Vec<(&'a RecordedSnapshot, Option<&'a RecordedMemory>)>,
    lost_snapshots: Vec<String>,
    without_memory: Vec<String>,
}

impl Workspaces {
    /// Lists the workspaces whose disks are in `lost/`, and recovers them if `apply` is set.
    pub fn recover_lost(&self, apply: bool) -> Result<Recovery, Failure> {
        in_place(|| self.recover_lost_blocking(apply))
    }

    fn recover_lost_blocking(&self, apply: bool) -> Result<Recovery, Failure> {
        let _disks = self.use_disks()?;
        let mut workspaces = Vec::new();
        let mut claimed = HashSet::new();
        let known: HashSet<_> =
            self.meta.read(|read| read.workspaces())?.into_iter().map(|workspace| workspace.id).collect();
        let mut records = self.records(&self.lost_disks_dir())?;
        // Disks that cannot be moved have their records in `disks/`.
        let unmoved = self.records(&self.installation.paths.disks_dir())?;
        records.extend(unmoved.into_iter().filter(|record| !known.contains(&record.id)));
        for record in records {
            workspaces.push(self.recover_one_lost(&record, apply, &mut claimed));
        }
        if apply {
            self.write_records();
        }
        let failed = |error| self.installation.io("list lost/", error);
        let files = entries(&self.lost_disks_dir()).map_err(failed)?;
        let mut other_disks: Vec<String> = files
            .iter()
            .filter(|path| disk_id_of(path).is_some_and(|disk| !claimed.contains(&disk)))
            .map(|path| path.display().to_string())
            .collect();
        other_disks.sort();
        Ok(Recovery { applied: apply, workspaces, other_disks })
    }

    fn recover_one_lost(&self, record: &Record, apply: bool, claimed: &mut HashSet<DiskId>) -> Recovered {
        let mut found = Recovered {
            id: record.id.to_string(),
            name: record.name.to_string(),
            now: None,
            image: record.image.to_string(),
            snapshots: Vec::new(),
            lost_snapshots: Vec::new(),
            without_memory: Vec::new(),
            problem: None,
        };
        let plan = match self.adoption(record) {
            Ok(plan) => plan,
            Err(failure) => {
                found.problem = Some(failure.message().to_owned());
                return found;
            }
        };
        claimed.extend(plan.links.iter().map(|link| link.disk));
        found.snapshots = plan.snapshots.iter().map(|(snapshot, _)| snapshot.name.to_string()).collect();
        found.lost_snapshots.clone_from(&plan.lost_snapshots);
        found.without_memory.clone_from(&plan.without_memory);
        if apply {
            match self.carry_out(record, &plan) {
                Ok(name) => {
                    found.now = Some(name.to_string());
                    let path = Record::path(&self.lost_disks_dir(), record.id);
                    if let Err(error) = remove_file(&path) {
                        tracing::warn!(%error, path = %path.display(), "could not remove this record");
                    }
                }
                Err(failure) => found.problem = Some(failure.message().to_owned()),
            }
        }
        found
    }

    /// Adds the workspace of a record to the database.
    pub(super) fn adopt(&self, record: &Record) -> Result<(), Failure> {
        let plan = self.adoption(record)?;
        self.carry_out(record, &plan).map(drop)
    }

    fn adoption<'a>(&self, record: &'a Record) -> Result<Plan<'a>, Failure> {
        let mut links = self.chain_from_files(record.disk)?;
        let (mut snapshots, mut lost_snapshots, mut without_memory) = (Vec::new(), Vec::new(), Vec::new());
        for snapshot in &record.snapshots {
            match self.chain_from_files(snapshot.disk) {
                Ok(chain) => {
                    let memory = match &snapshot.memory {
                        Some(memory) if self.has_memory(memory)? => Some(memory),
                        _ => None,
                    };
                    if snapshot.memory.is_some() && memory.is_none() {
                        without_memory.push(snapshot.name.to_string());
                    }
                    snapshots.push((snapshot, memory));
                    links.extend(chain);
                }
                Err(failure) if failure.code() == Code::DataDamaged => {
                    lost_snapshots.push(snapshot.name.to_string());
                }
                Err(failure) => return Err(failure),
            }
        }
        // Chains share backing disks; the first mention of each comes after everything it needs.
        let mut seen = HashSet::new();
        links.retain(|link| seen.insert(link.disk));
        Ok(Plan { links, snapshots, lost_snapshots, without_memory })
    }

    /// A disk and everything it reads through, backing disks first, in `disks/` or `lost/`.
    fn chain_from_files(&self, top: DiskId) -> Result<Vec<Link>, Failure> {
        let mut links = Vec::new();
        let mut next = Some(top);
        while let Some(disk) = next {
            let Some(path) = self.find_disk(disk)? else {
                let message = format!("its disk {top} stands on {disk}, which is missing");
                return Err(Failure::new(Code::DataDamaged, message));
            };
            let parent = self.installation.disks().parent(&path)?;
            next = parent.and_then(|source| disk_id_of(source.path()));
            if links.iter().any(|link: &Link| Some(link.disk) == next) {
                let message = format!("its disk {top} stands on itself");
                return Err(Failure::new(Code::DataDamaged, message));
            }
            links.push(Link { disk, parent: next });
        }
        links.reverse();
        Ok(links)
    }

    /// The file of a disk, in `disks/` or `lost/`; `None` if it is in neither.
    fn find_disk(&self, disk: DiskId) -> Result<Option<PathBuf>, Failure> {
        for path in [self.installation.disk_path(disk), self.lost_disk_path(disk)] {
            if exists(&path).map_err(|error| self.installation.io("look for a disk", error))? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Whether all files of a memory image exist, in their places or in `lost/`.
    fn has_memory(&self, memory: &RecordedMemory) -> Result<bool, Failure> {
        let paths = &self.installation.paths;
        let images = [paths.memory_dir(), paths.lost_dir().join("memory")];
        let bases = [paths.bases_dir(), paths.lost_dir().join("bases")];
        let is_in = |dirs: &[PathBuf], name: &str| -> io::Result<bool> {
            for dir in dirs {
                if exists(&dir.join(name))? {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let look = || -> io::Result<bool> {
            if !Self::is_zeros(&memory.base) && !is_in(&bases, &memory.base)? {
                return Ok(false);
            }
            for id in memory.packs.iter().chain([&memory.id]) {
                if !is_in(&images, &id.to_string())? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        look().map_err(|error| self.installation.io("look for the memory of a snapshot", error))
    }

    fn carry_out(&self, record: &Record, plan: &Plan<'_>) -> Result<WorkspaceName, Failure> {
        self.end_machines_on(record.disk)?;
        for link in &plan.links {
            self.take_back_disk(link.disk)?;
        }
        for (_, memory) in &plan.snapshots {
            if let Some(memory) = memory {
                self.take_back_base(&memory.base)?;
                memory.packs.iter().chain([&memory.id]).try_for_each(|&id| self.take_back_memory(id))?;
            }
        }
        Ok(self.meta.write(|tx| write_down(tx, record, plan))?)
    }

    /// Kills QEMUs that still write to the disk: no two machines may write to one disk.
    fn end_machines_on(&self, disk: DiskId) -> Result<(), Failure> {
        let known = self.known_machines()?;
        let failed = |error| self.installation.io("look for QEMU processes", error);
        for (pid, on) in qemus_on(&self.installation.paths.disks_dir()).map_err(failed)? {
            if on == disk && known.iter().all(|machine| machine.record.pid != pid) {
                tracing::warn!(pid, "killing a QEMU that belongs to no workspace");
                end(pid).map_err(|error| self.installation.io("end a QEMU that no workspace has", error))?;
            }
        }
        Ok(())
    }
}

fn write_down(tx: &Tx<'_>, record: &Record, plan: &Plan<'_>) -> Result<WorkspaceName, MetaError> {
    for Link { disk, parent } in &plan.links {
        match tx.disk_if_known(*disk)? {
            None => tx.insert_disk(&Disk {
                id: *disk,
                parent: *parent,
                frozen: *disk != record.disk,
                span: 1,
                workspace: Some(record.id),
            })?,
            Some(known) if known.parent != *parent => tx.set_disk_parent(*disk, *parent, known.span)?,
            Some(_) => {}
        }
    }
    let name = match tx.workspace_if_known(record.id)? {
        Some(known) => {
            if known.disk != record.disk {
                tx.set_disk(record.id, record.disk)?;
            }
            tx.set_disk_gb(record.id, record.resources.disk_gb.max(known.resources.disk_gb))?;
            known.name
        }
        None => insert_workspace(tx, record)?,
    };
    for Link { disk, .. } in plan.links.iter().filter(|link| link.disk != record.disk) {
        // A disk that another workspace writes to cannot be a backing disk.
        if let Some(writer) = tx.disk_users(*disk)?.workspaces.first() {
            return Err(MetaError::Needed { what: "disk", id: format!("{disk} of the workspace {writer}") });
        }
        tx.freeze_disk(*disk)?;
    }
    for (snapshot, memory) in &plan.snapshots {
        insert_snapshot(tx, record, snapshot, *memory)?;
    }
    if let Some(position) = record.position
        && tx.snapshot_if_known(position)?.is_some()
    {
        tx.set_position(record.id, Some(position))?;
    }
    Ok(name)
}

fn insert_workspace(tx: &Tx<'_>, record: &Record) -> Result<WorkspaceName, MetaError> {
    let name = free_name(tx, &record.name)?;
    let lineage = match &record.lineage {
        None => None,
        Some(lineage) => {
            let snapshot = match lineage.snapshot {
                Some(snapshot) => tx.snapshot_if_known(snapshot)?.map(|snapshot| snapshot.id),
                None => None,
            };
            Some(Lineage {
                workspace: lineage.workspace,
                name: lineage.name.clone(),
                snapshot,
                forked_at: lineage.forked_at,
                depth: lineage.depth,
            })
        }
    };
    tx.insert_workspace(&Workspace {
        id: record.id,
        name: name.clone(),
        image: record.image.clone(),
        image_identity: record.image_identity.clone(),
        resources: record.resources,
        created: record.created,
        state: WorkspaceState::Stopped { reason: Some("it was recovered from its disk".to_owned()) },
        disk: record.disk,
        position: None,
        lineage,
        from_pool: record.from_pool,
        tier: record.tier.clone(),
        // Rules are not recorded beside the disk: nothing is opened that was not asked for.
        network: NetworkState::default(),
    })?;
    if !record.labels.is_empty() {
        let mut settings = tx.settings(record.id)?;
        settings.labels.clone_from(&record.labels);
        tx.set_settings(record.id, &settings)?;
    }
    Ok(name)
}

fn insert_snapshot(
    tx: &Tx<'_>,
    record: &Record,
    snapshot: &RecordedSnapshot,
    memory: Option<&RecordedMemory>,
) -> Result<(), MetaError> {
    if tx.snapshot_if_known(snapshot.id)?.is_some() {
        return Ok(());
    }
    if let Some(RecordedMemory { id, base, created, pages, about, packs }) = memory
        && tx.memory_if_known(*id)?.is_none()
    {
        let row =
            Memory { id: *id, base: base.clone(), created: *created, pages: *pages, about: about.clone() };
        tx.insert_memory(&row, packs)?;
    }
    let parent = match snapshot.parent {
        Some(parent) => tx.snapshot_if_known(parent)?.map(|parent| parent.id),
        None => None,
    };
    let (kind, name) = snapshot.kind_and_name();
    tx.insert_snapshot(&Snapshot {
        id: snapshot.id,
        workspace: record.id,
        name,
        kind,
        description: snapshot.description.clone(),
        parent,
        created: snapshot.created,
        disk: snapshot.disk,
        memory: memory.map(|memory| memory.id),
    })
}

/// The name of the record, or a similar one if it is taken.
fn free_name(tx: &Tx<'_>, wanted: &WorkspaceName) -> Result<WorkspaceName, MetaError> {
    let taken: HashSet<String> =
        tx.workspaces()?.into_iter().map(|workspace| workspace.name.to_string()).collect();
    if !taken.contains(wanted.as_str()) {
        return Ok(wanted.clone());
    }
    // Cut the name if necessary so that the suffix fits.
    let stem: String = wanted.as_str().chars().take(40).collect();
    let stem = stem.trim_end_matches(['-', '.', '_']);
    let candidates = (1..=1000).map(|number| match number {
        1 => format!("{stem}-recovered"),
        number => format!("{stem}-recovered-{number}"),
    });
    for name in candidates {
        if let (false, Ok(name)) = (taken.contains(&name), name.parse()) {
            return Ok(name);
        }
    }
    Err(MetaError::WorkspaceExists { name: wanted.to_string() })
}

#[cfg(test)]
pub(super) mod tests;
