use std::fs;
use std::path::Path;

use agentiso_core::action::SnapshotKind;
use agentiso_core::ports::DiskSource;
use agentiso_core::{MemoryId, Resources, SnapshotId, WorkspaceId};
use agentiso_meta::{Gate, Meta};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::Installation;
use agentiso_config::paths::{Environment, Paths};

const GIB: u64 = 1 << 30;

/// An installation with disks and no machines.
pub(crate) struct World {
    dir: tempfile::TempDir,
    pub workspaces: Workspaces,
}

impl World {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("config.toml"), "[disks]\nbackend = \"qcow2\"\n[pool]\nsize = 0\n")
            .unwrap();
        let workspaces = open(dir.path()).await;
        fs::write(dir.path().join("base.raw"), vec![7; 1 << 20]).unwrap();
        Self { dir, workspaces }
    }

    pub async fn reopen(&mut self) {
        self.workspaces = open(self.dir.path()).await;
    }

    /// The data directory.
    pub fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Creates a disk that the database does not know.
    pub fn disk(&self, on: Option<DiskId>) -> DiskId {
        let id = DiskId::from_uuid(Uuid::now_v7());
        let installation = &self.workspaces.installation;
        let source = match on {
            Some(parent) => DiskSource::Layer(installation.disk_path(parent)),
            None => DiskSource::Raw(self.dir.path().join("base.raw")),
        };
        installation.create_disk(&installation.disk_path(id), &source, GIB).unwrap();
        id
    }

    pub fn add(&self, name: &str) -> Workspace {
        let disk = self.disk(None);
        let workspace = Workspace {
            id: WorkspaceId::from_uuid(Uuid::now_v7()),
            name: name.parse().unwrap(),
            image: "debian".parse().unwrap(),
            image_identity: "one".to_owned(),
            resources: Resources { disk_gb: 1, ..Resources::default() },
            created: Timestamp::from_microsecond(1_700_000_000_000_000).unwrap(),
            state: WorkspaceState::Stopped { reason: None },
            disk,
            position: None,
            lineage: None,
            from_pool: false,
            tier: "cold".to_owned(),
            network: Default::default(),
        };
        let written = self.workspaces.meta.write(|tx| {
            tx.insert_disk(&Disk { id: disk, parent: None, frozen: false, span: 1, workspace: None })?;
            tx.insert_workspace(&workspace)
        });
        written.unwrap();
        self.workspaces.write_records();
        workspace
    }

    /// A snapshot with memory: the workspace goes on on a new disk.
    pub fn snapshot(&self, of: &Workspace, name: &str) {
        let meta = &self.workspaces.meta;
        let now = meta.read(|read| read.workspace(of.id)).unwrap();
        let fresh = self.disk(Some(now.disk));
        let memory = MemoryId::from_uuid(Uuid::now_v7());
        let dir = self.workspaces.installation.paths.memory_dir().join(memory.to_string());
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("pack"), "pages").unwrap();
        let snapshot = Snapshot {
            id: SnapshotId::from_uuid(Uuid::now_v7()),
            workspace: of.id,
            name: name.parse().unwrap(),
            kind: SnapshotKind::User,
            description: "before".to_owned(),
            parent: now.position,
            created: Timestamp::from_microsecond(1_700_000_001_000_000).unwrap(),
            disk: now.disk,
            memory: Some(memory),
        };
        let written = meta.write(|tx| {
            tx.insert_disk(&Disk {
                id: fresh,
                parent: Some(now.disk),
                frozen: false,
                span: 1,
                workspace: None,
            })?;
            tx.set_disk(of.id, fresh)?;
            tx.freeze_disk(now.disk)?;
            let row = Memory {
                id: memory,
                base: "zeros".to_owned(),
                created: snapshot.created,
                pages: 1,
                about: json!({ "guest": 1 }),
            };
            tx.insert_memory(&row, &[memory])?;
            tx.insert_snapshot(&snapshot)?;
            tx.set_position(of.id, Some(snapshot.id))
        });
        written.unwrap();
        self.workspaces.write_records();
    }

    /// Everything the database knows, less what a recovery says about itself.
    pub fn rows(&self) -> String {
        let meta = &self.workspaces.meta;
        let rows = meta.read(|read| {
            let mut rows = Vec::new();
            for mut workspace in read.workspaces()? {
                workspace.state = WorkspaceState::Stopped { reason: None };
                rows.push(format!("{workspace:?}"));
                rows.extend(read.snapshots(workspace.id)?.iter().map(|snapshot| format!("{snapshot:?}")));
            }
            rows.extend(read.memories()?.iter().map(|memory| format!("{memory:?}")));
            for disk in read.disks()? {
                rows.push(format!("{} {:?} {}", disk.id, disk.parent, disk.frozen));
            }
            Ok(rows)
        });
        meta.verify().unwrap();
        rows.unwrap().join("\n")
    }

    /// The snapshots of a workspace, oldest first.
    pub fn snapshots_of(&self, workspace: &Workspace) -> Vec<SnapshotId> {
        let snapshots = self.workspaces.meta.read(|read| read.snapshots(workspace.id)).unwrap();
        snapshots.into_iter().map(|snapshot| snapshot.id).collect()
    }

    /// Leaves the operation of a command that died after it had written down what it made.
    pub fn leave_behind(&self, workspace: &Workspace) {
        let meta = &self.workspaces.meta;
        let snapshots = meta.read(|read| read.snapshots(workspace.id)).unwrap();
        let intent = json!({
            "disks": snapshots.iter().map(|snapshot| snapshot.disk).collect::<Vec<_>>(),
            "memories": snapshots.iter().filter_map(|snapshot| snapshot.memory).collect::<Vec<_>>(),
        });
        let left = meta.write(|tx| {
            let operation = tx.begin("snapshot", Some(workspace.id), &intent)?;
            tx.abandon(operation)
        });
        left.unwrap();
    }

    /// Puts something between the workspaces and their database.
    pub fn guard(&mut self, gate: Gate) {
        let path = self.workspaces.meta.path().to_owned();
        self.workspaces.meta = std::sync::Arc::new(Meta::open(&path).unwrap().with_gate(gate));
    }

    /// Files of disks and memory images, by name.
    pub fn files(&self, below: &str) -> Vec<String> {
        let dirs = ["disks", "memory"].map(|dir| self.dir.path().join(below).join(dir));
        let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten());
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    }

    /// Sweeps as every removal does.
    fn sweep(&self) {
        self.workspaces.remove_unneeded().unwrap();
    }
}

async fn open(home: &Path) -> Workspaces {
    try_open(home).await.unwrap()
}

pub(crate) async fn try_open(home: &Path) -> Result<Workspaces, Failure> {
    let environment = Environment { agentiso_home: Some(home.to_owned()), ..Environment::default() };
    let paths = Paths::resolve(&environment, None, &|path| path.exists()).unwrap();
    Workspaces::open(&Installation::open(paths).unwrap()).await
}

pub(crate) fn remove_database(home: &Path) {
    for file in ["state.db", "state.db-wal", "state.db-shm"] {
        remove_file(&home.join(file)).unwrap();
    }
}

/// A copy of the database, with its log.
pub(crate) fn copy_database(world: &World, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in ["state.db", "state.db-wal"] {
        fs::copy(world.dir.path().join(file), to.join(file)).unwrap();
    }
}

pub(crate) fn restore_database(world: &World, from: &Path) {
    remove_database(world.dir.path());
    for file in ["state.db", "state.db-wal"] {
        fs::copy(from.join(file), world.dir.path().join(file)).unwrap();
    }
}

#[tokio::test]
async fn a_missing_database_costs_no_disk_and_everything_is_taken_back() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    world.snapshot(&web, "second");
    world.add("other");
    let (rows, files) = (world.rows(), world.files(""));

    remove_database(world.dir.path());
    world.reopen().await;
    world.sweep();
    assert_eq!(world.rows(), "");
    assert_eq!(world.files("lost"), files, "everything is kept");

    let seen = world.workspaces.recover_lost(false).unwrap();
    assert!(!seen.applied && seen.other_disks.is_empty());
    assert_eq!(world.files("lost"), files, "looking changes nothing");
    let names: Vec<_> = seen.workspaces.iter().map(|one| (one.name.as_str(), one.snapshots.len())).collect();
    assert_eq!(names, [("web", 2), ("other", 0)]);

    let done = world.workspaces.recover_lost(true).unwrap();
    assert!(done.workspaces.iter().all(|one| one.problem.is_none() && one.now.as_ref() == Some(&one.name)));
    assert_eq!(world.rows(), rows);
    assert_eq!(world.files(""), files);
    assert!(world.files("lost").is_empty());
    // From now on it is the database of these disks.
    world.reopen().await;
    world.sweep();
    assert_eq!(world.rows(), rows);
}

#[tokio::test]
async fn an_older_database_is_brought_up_to_what_is_on_disk() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    let copy = world.dir.path().join("copy");
    copy_database(&world, &copy);
    // All of this happens after the copy: the workspace moves to another disk, and one is added.
    world.snapshot(&web, "second");
    world.add("later");
    let (rows, files) = (world.rows(), world.files(""));

    restore_database(&world, &copy);
    world.reopen().await;
    world.sweep();
    assert_eq!(world.rows(), rows);
    assert_eq!(world.files(""), files);
    assert!(world.files("lost").is_empty());
}

#[tokio::test]
async fn an_operation_of_an_older_database_deletes_nothing_that_was_finished_since() {
    let mut world = World::new().await;
    let disk = world.disk(None);
    let intent = json!({ "disks": [disk] });
    let operation = world.workspaces.meta.write(|tx| tx.begin("create", None, &intent)).unwrap();
    world.workspaces.meta.write(|tx| tx.abandon(operation)).unwrap();
    let copy = world.dir.path().join("copy");
    copy_database(&world, &copy);
    world.workspaces.meta.write(|tx| tx.complete(operation)).unwrap();
    world.add("later");

    restore_database(&world, &copy);
    world.reopen().await;
    let name = format!("{disk}.qcow2");
    assert!(world.files("lost").contains(&name), "{:?}", world.files("lost"));
}

#[tokio::test]
async fn the_right_database_takes_its_disks_back_from_lost() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    let (rows, files) = (world.rows(), world.files(""));
    let copy = world.dir.path().join("copy");
    copy_database(&world, &copy);
    remove_database(world.dir.path());
    world.reopen().await;
    assert_eq!(world.files("lost"), files);

    restore_database(&world, &copy);
    world.reopen().await;
    world.sweep();
    assert_eq!(world.rows(), rows);
    assert_eq!(world.files(""), files);
}

#[tokio::test]
async fn a_name_that_is_taken_and_a_snapshot_without_its_disk_do_not_stop_a_recovery() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    let branch = world.disk(None);
    world
        .workspaces
        .meta
        .write(|tx| {
            tx.insert_disk(&Disk { id: branch, parent: None, frozen: true, span: 1, workspace: None })?;
            tx.insert_snapshot(&Snapshot {
                id: SnapshotId::from_uuid(Uuid::now_v7()),
                workspace: web.id,
                name: "gone".parse().unwrap(),
                kind: SnapshotKind::User,
                description: String::new(),
                parent: None,
                created: web.created,
                disk: branch,
                memory: None,
            })
        })
        .unwrap();
    world.workspaces.write_records();
    remove_database(world.dir.path());
    fs::remove_file(world.workspaces.installation.disk_path(branch)).unwrap();
    world.reopen().await;
    world.add("web");
    let done = world.workspaces.recover_lost(true).unwrap();
    let [one] = &done.workspaces[..] else { panic!("{done:?}") };
    assert_eq!(one.now.as_deref(), Some("web-recovered"));
    assert_eq!(
        (&one.snapshots[..], &one.lost_snapshots[..]),
        (&["first".to_owned()][..], &["gone".to_owned()][..])
    );
    assert!(one.problem.is_none(), "{one:?}");
}

#[tokio::test]
async fn what_a_trusted_database_does_not_know_is_kept_too() {
    let world = World::new().await;
    world.add("web");
    let stray = world.disk(None);
    world.sweep();
    assert_eq!(world.files("lost"), [format!("{stray}.qcow2")]);
    let seen = world.workspaces.recover_lost(false).unwrap();
    assert_eq!((seen.workspaces.len(), seen.other_disks.len()), (0, 1));
}

#[tokio::test]
async fn a_record_goes_with_its_workspace() {
    let world = World::new().await;
    let web = world.add("web");
    world.workspaces.meta.write(|tx| tx.remove_workspace(web.id)).unwrap();
    world.workspaces.write_records();
    world.sweep();
    assert!(world.files("").is_empty() && world.files("lost").is_empty());
}

/// Written by the first version that had records. It must be understood for ever.
const SAMPLE: &str = include_str!("record-1.json");

#[test]
fn a_record_of_format_1_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0190a0b0-0000-7000-8000-000000000001.workspace.json");
    fs::write(&path, SAMPLE).unwrap();
    let record = Record::read(&path).unwrap();
    assert_eq!((record.name.as_str(), record.generation), ("web", 12));
    assert_eq!(record.labels["team"], "blue");
    assert_eq!(record.lineage.as_ref().unwrap().depth, 1);
    let snapshot = &record.snapshots[0];
    assert_eq!(snapshot.memory.as_ref().unwrap().packs.len(), 2);
    assert_eq!(
        serde_json::to_value(&record).unwrap(),
        serde_json::from_str::<serde_json::Value>(SAMPLE).unwrap()
    );

    fs::write(&path, SAMPLE.replace("\"format\": 1", "\"format\": 2")).unwrap();
    assert_eq!(Record::read(&path).unwrap_err().kind(), std::io::ErrorKind::InvalidData);
}
