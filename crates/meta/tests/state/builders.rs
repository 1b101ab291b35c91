//! Builders of test states.

use agentiso_core::action::SnapshotKind;
use agentiso_core::{DiskId, MemoryId, NetworkState, Resources, SessionId, SnapshotId, WorkspaceId};
use agentiso_meta::{
    Disk, Lineage, Memory, Meta, MetaError, PoolMachine, Session, SessionKind, Snapshot, Workspace,
    WorkspaceState,
};
use jiff::Timestamp;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

/// A database in its own temporary directory.
pub struct State {
    pub meta: Meta,
    pub dir: TempDir,
}

impl State {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { meta: Meta::open(&dir.path().join("state.db")).unwrap(), dir }
    }

    /// Opens the same database again, like another process.
    pub fn reopen(&self) -> Meta {
        Meta::open(self.meta.path()).unwrap()
    }

    /// Adds a stopped workspace with its own disk.
    pub fn add(&self, name: &str) -> Workspace {
        self.add_with(name, |_| ())
    }

    /// Adds a workspace that `adjust` has changed.
    pub fn add_with(&self, name: &str, adjust: impl FnOnce(&mut Workspace)) -> Workspace {
        let disk = disk(None);
        let mut workspace = workspace(name, disk.id);
        adjust(&mut workspace);
        self.meta
            .write(|tx| {
                tx.insert_disk(&disk)?;
                tx.insert_workspace(&workspace)
            })
            .unwrap();
        workspace
    }

    /// Adds a session.
    pub fn add_session(&self) -> Session {
        let session = session();
        self.meta.write(|tx| tx.insert_session(&session)).unwrap();
        session
    }

    /// Takes a snapshot of a workspace as a command would.
    pub fn snap(&self, workspace: WorkspaceId, name: &str) -> Snapshot {
        self.meta.write(|tx| take(tx, workspace, name, None)).unwrap()
    }

    pub fn find(&self, name: &str) -> Result<Workspace, MetaError> {
        self.meta.read(|state| state.find_workspace(name))
    }

    pub fn get(&self, id: WorkspaceId) -> Workspace {
        self.meta.read(|state| state.workspace(id)).unwrap()
    }
}

/// Adds a snapshot with the workspace's disk and gives the workspace a new disk on top of it.
pub fn take(
    tx: &agentiso_meta::Tx<'_>,
    id: WorkspaceId,
    name: &str,
    memory: Option<MemoryId>,
) -> Result<Snapshot, MetaError> {
    let workspace = tx.workspace(id)?;
    let next = disk(Some(workspace.disk));
    let parent = workspace.position;
    let snapshot = Snapshot { parent, memory, ..snapshot(id, name, workspace.disk) };
    tx.insert_disk(&next)?;
    tx.freeze_disk(workspace.disk)?;
    tx.set_disk(id, next.id)?;
    tx.insert_snapshot(&snapshot)?;
    tx.set_position(id, Some(snapshot.id))?;
    Ok(snapshot)
}

pub fn workspace(name: &str, disk: DiskId) -> Workspace {
    Workspace {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        name: name.parse().unwrap(),
        image: "debian".parse().unwrap(),
        image_identity: "blake3:0123".to_owned(),
        resources: Resources::default(),
        created: now(),
        state: WorkspaceState::Stopped { reason: None },
        disk,
        position: None,
        lineage: None,
        from_pool: false,
        tier: "template".to_owned(),
        network: NetworkState::default(),
    }
}

pub fn lineage(source: &Workspace, snapshot: Option<SnapshotId>) -> Lineage {
    Lineage {
        workspace: source.id,
        name: source.name.clone(),
        snapshot,
        forked_at: now(),
        depth: source.depth() + 1,
    }
}

pub fn snapshot(workspace: WorkspaceId, name: &str, disk: DiskId) -> Snapshot {
    Snapshot {
        id: SnapshotId::from_uuid(Uuid::now_v7()),
        workspace,
        name: name.parse().unwrap(),
        kind: SnapshotKind::User,
        description: "before the upgrade".to_owned(),
        parent: None,
        created: now(),
        disk,
        memory: None,
    }
}

pub fn disk(parent: Option<DiskId>) -> Disk {
    Disk { id: DiskId::from_uuid(Uuid::now_v7()), parent, frozen: false, span: 1, workspace: None }
}

pub fn memory() -> Memory {
    Memory {
        id: MemoryId::from_uuid(Uuid::now_v7()),
        base: "template-1".to_owned(),
        created: now(),
        pages: 2560,
        about: json!({ "qemu": "7.2" }),
    }
}

pub fn pool_machine(shape: &str, disk: DiskId) -> PoolMachine {
    PoolMachine {
        id: WorkspaceId::from_uuid(Uuid::now_v7()),
        shape: shape.to_owned(),
        image: "debian".parse().unwrap(),
        image_identity: "blake3:0123".to_owned(),
        resources: Resources::default(),
        disk,
        machine: json!({ "pid": 4242 }),
        tier: "warm".to_owned(),
        created: now(),
    }
}

pub fn session() -> Session {
    let id = Uuid::new_v4();
    let mut token_hash = [7; 32];
    token_hash[..16].copy_from_slice(id.as_bytes());
    Session {
        id: SessionId::from_uuid(id),
        kind: SessionKind::Mcp,
        client: "some client".to_owned(),
        token_hash,
        created: now(),
        last_active: now(),
    }
}

/// The current time, to the microsecond, as it is stored.
pub fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}
