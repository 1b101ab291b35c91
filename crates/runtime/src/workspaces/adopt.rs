//! Writing workspaces down again from their records.
//!
//! A record is adopted when every disk its workspace stands on can be found, in `disks/` or in `lost/`. Snapshots whose
//! disks are missing are left out; those whose memory is missing lose the memory alone. Rows are only added or moved
//! forward: what the database knows and the record does not stays.

use std::collections::HashSet;

use agentiso_core::{Code, DiskId, Failure, WorkspaceName};
use agentiso_meta::{Disk, Lineage, Memory, MetaError, Snapshot, Tx, Workspace, WorkspaceState};
use serde::Serialize;

use super::Workspaces;
use super::record::{Record, RecordedMemory, RecordedSnapshot};
use super::recover::{end, qemus_on};
use crate::hold::disk_id_of;

/// What `recover` found and did.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Recovery {
    /// Whether it was done, or only looked at.
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
    /// What it was called.
    pub name: String,
    /// What it is called now, if it was taken back; its old name may have been taken.
    pub now: Option<String>,
    /// The image it was made of.
    pub image: String,
    /// Its snapshots that can be taken back.
    pub snapshots: Vec<String>,
    /// Snapshots whose disk is missing.
    pub lost_snapshots: Vec<String>,
    /// Snapshots that are taken back without their memory.
    pub without_memory: Vec<String>,
    /// Why it cannot be taken back.
    pub problem: Option<String>,
}

/// A disk and the one it stands on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Link {
    disk: DiskId,
    parent: Option<DiskId>,
}

/// What of a record can be had.
struct Plan<'a> {
    /// Every disk, each after the one it stands on.
    links: Vec<Link>,
    snapshots: Vec<(&'a RecordedSnapshot, Option<&'a RecordedMemory>)>,
    lost_snapshots: Vec<String>,
    without_memory: Vec<String>,
}

impl Workspaces {
    /// Lists the workspaces whose disks are in `lost/`, and takes them back if `apply` says so.
    pub fn recover_lost(&self, apply: bool) -> Result<Recovery, Failure> {
        let _disks = self.use_disks()?;
        let mut workspaces = Vec::new();
        let mut claimed = HashSet::new();
        let known: HashSet<_> =
            self.meta.read(|read| read.workspaces())?.into_iter().map(|workspace| workspace.id).collect();
        let mut records = self.records(&self.lost_disks_dir())?;
        // Where disks cannot be moved, their records are among the others.
        let in_place = self.records(&self.installation.paths.disks_dir())?;
        records.extend(in_place.into_iter().filter(|record| !known.contains(&record.id)));
        for record in records {
            workspaces.push(self.recover_one_lost(&record, apply, &mut claimed));
        }
        if apply {
            self.write_records();
        }
        let failed = |error| self.installation.io("look at what is in lost/", error);
        let files = super::lost::entries(&self.lost_disks_dir()).map_err(failed)?;
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
                    if let Err(error) = super::record::gone(std::fs::remove_file(&path)) {
                        tracing::warn!(%error, path = %path.display(), "could not remove this record");
                    }
                }
                Err(failure) => found.problem = Some(failure.message().to_owned()),
            }
        }
        found
    }

    /// Writes down what a record says.
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
                    let memory = snapshot.memory.as_ref().filter(|memory| self.has_memory(memory));
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
        // Chains share what they stand on; the first mention comes after everything it needs.
        let mut seen = HashSet::new();
        links.retain(|link| seen.insert(link.disk));
        Ok(Plan { links, snapshots, lost_snapshots, without_memory })
    }

    /// A disk and everything it stands on, what others stand on first, wherever the files are now.
    fn chain_from_files(&self, top: DiskId) -> Result<Vec<Link>, Failure> {
        let mut links = Vec::new();
        let mut next = Some(top);
        while let Some(disk) = next {
            let here = self.installation.disk_path(disk);
            let there = self.lost_disk_path(disk);
            let Some(path) = [here, there].into_iter().find(|path| path.symlink_metadata().is_ok()) else {
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

    fn has_memory(&self, memory: &RecordedMemory) -> bool {
        let paths = &self.installation.paths;
        let images = [paths.memory_dir(), paths.lost_dir().join("memory")];
        let is_there =
            |id: agentiso_core::MemoryId| images.iter().any(|dir| dir.join(id.to_string()).is_dir());
        let bases = [paths.bases_dir(), paths.lost_dir().join("bases")];
        let base = Self::is_zeros(&memory.base) || bases.iter().any(|dir| dir.join(&memory.base).is_file());
        base && is_there(memory.id) && memory.packs.iter().all(|&pack| is_there(pack))
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

    /// Ends QEMUs that write to a disk for a workspace that nobody could reach: two must not write to one disk.
    fn end_machines_on(&self, disk: DiskId) -> Result<(), Failure> {
        let known = self.known_machines()?;
        for (pid, on) in qemus_on(&self.installation.paths.disks_dir()) {
            if on == disk && known.iter().all(|machine| machine.record.pid != pid) {
                tracing::warn!(pid, "ending a machine that no workspace has");
                end(pid);
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
        // A disk that another workspace writes to cannot be what this one stands on.
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

/// The name a workspace had, or one like it if that is taken.
fn free_name(tx: &Tx<'_>, wanted: &WorkspaceName) -> Result<WorkspaceName, MetaError> {
    let taken: HashSet<String> =
        tx.workspaces()?.into_iter().map(|workspace| workspace.name.to_string()).collect();
    if !taken.contains(wanted.as_str()) {
        return Ok(wanted.clone());
    }
    // A name may have to be cut for the suffix to fit.
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
