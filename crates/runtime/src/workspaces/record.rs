//! Records of workspaces beside their disks, from which they can be recovered without the database.
//!
//! Every workspace has a *record* in the directory of disks: its own row and those of its snapshots and their memory.
//! Backing files are not recorded, because the disk files name them. A *marker* in the same directory names the database
//! that the records belong to and the newest generation among them.
//!
//! The rows are committed first, then the record is written, then the note that it is stale is deleted. If this is
//! interrupted the record is older than the database, never newer, and the next process writes it again. So a record
//! that is newer than the database means that the database was replaced by an older one.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use agentiso_blocking::in_place;
use agentiso_core::action::SnapshotKind;
use agentiso_core::{
    DiskId, Failure, ImageName, MemoryId, Resources, SnapshotId, SnapshotName, WorkspaceId, WorkspaceName,
};
use agentiso_meta::{Memory, MetaError, Read, Snapshot, Workspace};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Workspaces;
use super::files::remove_file;

/// The prefix of a partial record's name.
const PARTIAL: &str = ".record-";
/// The newest format of records and markers. Fields may be added to a format; a change of meaning needs a new one.
const FORMAT: u32 = 1;
const SUFFIX: &str = ".workspace.json";
const MARKER: &str = ".database.json";
/// The largest record that is read: far more than a workspace with thousands of snapshots needs.
const LARGEST: u64 = 64 << 20;

/// Everything needed to add a workspace to a database again.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Record {
    format: u32,
    /// The database it was written from.
    pub database: String,
    /// The generation of the database it was written at.
    pub generation: u64,
    pub id: WorkspaceId,
    pub name: WorkspaceName,
    pub image: ImageName,
    pub image_identity: String,
    pub resources: Resources,
    pub created: Timestamp,
    /// The disk the workspace writes to.
    pub disk: DiskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<SnapshotId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<RecordedLineage>,
    pub from_pool: bool,
    pub tier: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<RecordedSnapshot>,
}

/// Where a fork came from.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RecordedLineage {
    pub workspace: WorkspaceId,
    pub name: WorkspaceName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotId>,
    pub forked_at: Timestamp,
    pub depth: u32,
}

/// A snapshot.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RecordedSnapshot {
    pub id: SnapshotId,
    pub name: SnapshotName,
    /// Absent in records of versions that told the kind by the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<SnapshotKind>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SnapshotId>,
    pub created: Timestamp,
    pub disk: DiskId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<RecordedMemory>,
}

/// The memory of a snapshot.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct RecordedMemory {
    pub id: MemoryId,
    pub base: String,
    pub created: Timestamp,
    pub pages: u64,
    pub about: Value,
    pub packs: Vec<MemoryId>,
}

/// Which database the records belong to.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Marker {
    format: u32,
    pub database: String,
    /// The newest generation of any record.
    pub generation: u64,
}

impl Record {
    /// The current record of a workspace; `None` if there is no such workspace.
    pub fn of(read: &Read<'_>, id: WorkspaceId) -> Result<Option<Self>, MetaError> {
        let Some(workspace) = read.workspace_if_known(id)? else { return Ok(None) };
        let identity = read.identity()?;
        let mut snapshots = Vec::new();
        for snapshot in read.snapshots(id)? {
            let memory = match snapshot.memory {
                Some(memory) => Some(RecordedMemory::of(read.memory(memory)?, read.packs_of(memory)?)),
                None => None,
            };
            snapshots.push(RecordedSnapshot::of(snapshot, memory));
        }
        let labels = read.settings(id)?.labels;
        let Workspace { name, image, image_identity, resources, created, disk, position, lineage, .. } =
            workspace;
        let Workspace { from_pool, tier, .. } = workspace;
        let lineage = lineage.map(|lineage| RecordedLineage {
            workspace: lineage.workspace,
            name: lineage.name,
            snapshot: lineage.snapshot,
            forked_at: lineage.forked_at,
            depth: lineage.depth,
        });
        let (database, generation) = (identity.database, identity.generation);
        Ok(Some(Self {
            format: FORMAT,
            database,
            generation,
            id,
            name,
            image,
            image_identity,
            resources,
            created,
            disk,
            position,
            lineage,
            from_pool,
            tier,
            labels,
            snapshots,
        }))
    }

    /// The path of a workspace's record.
    pub fn path(dir: &Path, id: WorkspaceId) -> PathBuf {
        dir.join(format!("{id}{SUFFIX}"))
    }

    /// The workspace of a record, by the file's name.
    pub fn workspace_of(path: &Path) -> Option<WorkspaceId> {
        let id = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?;
        uuid::Uuid::try_parse(id).ok().map(WorkspaceId::from_uuid)
    }

    /// Reads a record.
    pub fn read(path: &Path) -> io::Result<Self> {
        let record: Self = read_json(path)?;
        if record.format != FORMAT || Self::workspace_of(path) != Some(record.id) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a record of a known version"));
        }
        Ok(record)
    }

    /// Writes it to a directory, replacing an older one.
    pub fn write(&self, dir: &Path) -> io::Result<()> {
        write_json(&Self::path(dir, self.id), self)
    }
}

impl RecordedSnapshot {
    fn of(snapshot: Snapshot, memory: Option<RecordedMemory>) -> Self {
        let Snapshot { id, name, kind, description, parent, created, disk, .. } = snapshot;
        Self { id, name, kind: Some(kind), description, parent, created, disk, memory }
    }

    /// Its kind and its name. Versions before kinds called snapshots of suspended workspaces `suspended` or
    /// `suspended-NUMBER`, which are names for users now.
    pub fn kind_and_name(&self) -> (SnapshotKind, SnapshotName) {
        let number = |rest: &str| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_number);
        let was_suspend = || self.name.as_str().strip_prefix("suspended").is_some_and(number);
        match self.kind {
            Some(kind) => (kind, self.name.clone()),
            None if was_suspend() => {
                let name = format!("suspend-{}", self.id).parse();
                (SnapshotKind::Suspend, name.unwrap_or_else(|_| self.name.clone()))
            }
            None => (SnapshotKind::User, self.name.clone()),
        }
    }
}

impl RecordedMemory {
    fn of(memory: Memory, packs: Vec<MemoryId>) -> Self {
        let Memory { id, base, created, pages, about } = memory;
        Self { id, base, created, pages, about, packs }
    }
}

impl Marker {
    /// The marker of a directory; `None` if it does not exist or is damaged.
    pub fn read(dir: &Path) -> io::Result<Option<Self>> {
        match read_json::<Self>(&dir.join(MARKER)) {
            Ok(marker) => Ok(Some(marker).filter(|marker| marker.format == FORMAT)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Writes it, unless there is a later one of the same database.
    fn write(database: &str, generation: u64, dir: &Path) -> io::Result<()> {
        match Self::read(dir)? {
            Some(there) if there.database == database && there.generation >= generation => Ok(()),
            _ => {
                let marker = Self { format: FORMAT, database: database.to_owned(), generation };
                write_json(&dir.join(MARKER), &marker)
            }
        }
    }
}

impl Workspaces {
    /// Writes the records that are older than the database. On failure the next process writes them.
    pub(crate) fn write_records(&self) {
        if let Err(failure) = in_place(|| self.try_write_records()) {
            tracing::warn!(%failure, "could not write the records of workspaces");
        }
    }

    fn try_write_records(&self) -> Result<(), Failure> {
        let dir = self.installation.paths.disks_dir();
        let failed = |error| self.installation.io("write the record of a workspace", error);
        let stale = self.meta.read(|read| read.stale_records())?;
        if stale.is_empty() {
            return Ok(());
        }
        for one in &stale {
            let written = match self.meta.read(|read| Record::of(read, one.workspace))? {
                Some(record) => record.write(&dir),
                None => remove_file(&Record::path(&dir, one.workspace)),
            };
            written.map_err(failed)?;
        }
        self.write_marker()?;
        Ok(self.meta.write(|tx| tx.settle_records(&stale))?)
    }

    /// Writes the marker.
    pub(super) fn write_marker(&self) -> Result<(), Failure> {
        let identity = self.meta.read(|read| read.identity())?;
        Marker::write(&identity.database, identity.generation, &self.installation.paths.disks_dir())
            .map_err(|error| self.installation.io("write the marker of the database", error))
    }
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|digit| digit.is_ascii_digit())
}

fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    serde_json::from_slice(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Whether a file is a partial record.
pub(super) fn is_partial_record(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PARTIAL))
}

/// Writes a file atomically.
fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::with_prefix_in(PARTIAL, dir)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}
