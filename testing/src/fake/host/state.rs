//! What a fake host has.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentiso_core::ports::host::{ImageView, PoolState};
use agentiso_core::{Code, DiskId, Failure, ImageName, Limits, MemoryId, Resources, WorkspaceId};
use agentiso_meta::{Disk as DiskRow, Meta, Tx, Workspace, WorkspaceState};
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::secrets::FakeSecrets;
use crate::fake::faults::Faults;
use crate::fake::machine::{Disk, Machine, Shared, locked};
use crate::fake::memory::Memory;
use crate::fake::tree::Tree;

/// Calls of a host that can be told to fail or to hang.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(missing_docs, reason = "each is the method of the port that has its name")]
pub enum HostCall {
    List,
    Info,
    Create,
    Start,
    Stop,
    SwitchOff,
    Remove,
    Rename,
    Grow,
    SetNetwork,
    SetSecret,
    Secrets,
    RemoveSecret,
    GrantSecrets,
    GrantedSecrets,
    GuestVariables,
    Snapshot,
    Snapshots,
    RemoveSnapshot,
    SizeAt,
    Restore,
    Fork,
    /// Each fork of a call by itself.
    ForkOne,
    Compare,
    CompareFile,
    Export,
    Link,
    NoteIfEnded,
    Logs,
    DiskUsedBytes,
    PoolState,
    EmptyPool,
    Maintain,
    Image,
    Images,
    MakeImage,
    CommitImage,
    RemoveImage,
    OpenArchive,
    IntoImage,
}

/// A host of workspaces in memory. Cheap to clone: clones are the same host, so it outlives an engine that uses it.
#[derive(Clone)]
pub struct FakeHost {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub meta: Arc<Meta>,
    pub limits: Limits,
    pub faults: Faults<HostCall, Code>,
    pub shared: Arc<Shared>,
    /// The machine of each workspace, until it is noted that it has ended.
    pub machines: Mutex<HashMap<WorkspaceId, Arc<Machine>>>,
    /// Every machine there ever was, by its number.
    pub by_pid: Mutex<HashMap<u32, Arc<Machine>>>,
    pub disks: Mutex<HashMap<DiskId, StoredDisk>>,
    pub memories: Mutex<HashMap<MemoryId, StoredMemory>>,
    pub images: Mutex<BTreeMap<ImageName, StoredImage>>,
    pub pool: Mutex<PoolState>,
    pub secrets: Mutex<FakeSecrets>,
    pub expected_creates: AtomicUsize,
    turns: Mutex<HashMap<WorkspaceId, Arc<tokio::sync::Mutex<()>>>>,
    next_pid: AtomicU32,
}

#[derive(Clone)]
pub(super) struct StoredDisk {
    pub files: Disk,
    pub gb: u32,
}

#[derive(Clone)]
pub(super) struct StoredMemory {
    pub memory: Memory,
    pub resources: Resources,
}

#[derive(Clone)]
pub(super) struct StoredImage {
    pub view: ImageView,
    pub files: Tree,
}

/// Numbers of machines begin above every process id of Linux.
const FIRST_PID: u32 = 5_000_000;

impl FakeHost {
    /// A host with one image, `debian`.
    pub fn new(meta: Arc<Meta>) -> Self {
        Self::with_limits(meta, Limits::default())
    }

    /// The same, with other limits on the sizes of machines.
    pub fn with_limits(meta: Arc<Meta>, limits: Limits) -> Self {
        let inner = Inner {
            meta,
            limits,
            faults: Faults::default(),
            shared: Arc::default(),
            machines: Mutex::default(),
            by_pid: Mutex::default(),
            disks: Mutex::default(),
            memories: Mutex::default(),
            images: Mutex::default(),
            pool: Mutex::default(),
            secrets: Mutex::default(),
            expected_creates: AtomicUsize::default(),
            turns: Mutex::default(),
            next_pid: AtomicU32::new(FIRST_PID),
        };
        let host = Self { inner: Arc::new(inner) };
        host.add_image("debian", Default::default());
        host
    }

    /// Called at the beginning of each call.
    pub(super) async fn pass(&self, call: HostCall) -> Result<(), Failure> {
        let passed = self.inner.faults.pass(call).await;
        passed.map_err(|code| Failure::new(code, format!("{call:?} was made to fail")))
    }

    /// Keeps other changes of a workspace away.
    pub(super) async fn turn(&self, id: WorkspaceId) -> tokio::sync::OwnedMutexGuard<()> {
        let turn = Arc::clone(locked(&self.inner.turns).entry(id).or_default());
        turn.lock_owned().await
    }

    /// A new machine that nobody has yet.
    pub(super) fn machine(&self, disk: Disk, memory: Memory) -> Arc<Machine> {
        let pid = self.inner.next_pid.fetch_add(1, Ordering::Relaxed);
        let machine = Machine::new(pid, disk, memory, Arc::clone(&self.inner.shared));
        locked(&self.inner.by_pid).insert(pid, Arc::clone(&machine));
        machine
    }

    /// The machine of a workspace, if it runs. A machine that has ended is noted as such.
    pub(super) fn reach(&self, workspace: &Workspace) -> Result<Option<Arc<Machine>>, Failure> {
        if workspace.machine().is_none() {
            return Ok(None);
        }
        match self.running(workspace.id) {
            Some(machine) => Ok(Some(machine)),
            None => {
                let reason = self.reason_of_end(workspace);
                self.inner.meta.write(|tx| tx.set_stopped(workspace.id, Some(&reason)))?;
                locked(&self.inner.machines).remove(&workspace.id);
                Ok(None)
            }
        }
    }

    /// The machine of a workspace that has not ended.
    pub(super) fn running(&self, id: WorkspaceId) -> Option<Arc<Machine>> {
        let machine = locked(&self.inner.machines).get(&id).cloned();
        machine.filter(|machine| machine.end_reason().is_none())
    }

    pub(super) fn workspace(&self, id: WorkspaceId) -> Result<Workspace, Failure> {
        Ok(self.inner.meta.read(|read| read.workspace(id))?)
    }

    pub(super) fn disk(&self, id: DiskId) -> Result<StoredDisk, Failure> {
        let disk = locked(&self.inner.disks).get(&id).cloned();
        disk.ok_or_else(|| Failure::new(Code::Internal, format!("the fake host has no disk {id}")))
    }

    /// A copy of the files of a disk.
    pub(super) fn files(&self, id: DiskId) -> Result<Tree, Failure> {
        let disk = self.disk(id)?;
        let files = locked(&disk.files).clone();
        Ok(files)
    }

    /// Removes disks and memories that nothing needs any more.
    pub(super) fn remove_unneeded(&self) -> Result<(), Failure> {
        let (disks, memories) = self.inner.meta.write(|tx| {
            let mut gone = Vec::new();
            loop {
                let unneeded = tx.unneeded_disks()?;
                if unneeded.is_empty() {
                    break;
                }
                unneeded.iter().try_for_each(|disk| tx.remove_disk(disk.id))?;
                gone.extend(unneeded.into_iter().map(|disk| disk.id));
            }
            let memories = tx.unneeded_memories()?;
            memories.iter().try_for_each(|memory| tx.remove_memory(memory.id))?;
            Ok((gone, memories))
        })?;
        locked(&self.inner.disks).retain(|id, _| !disks.contains(id));
        locked(&self.inner.memories).retain(|id, _| !memories.iter().any(|memory| memory.id == *id));
        Ok(())
    }
}

/// The present, as precisely as it is stored.
pub(super) fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).expect("the present")
}

pub(super) fn new_disk() -> DiskId {
    DiskId::from_uuid(Uuid::now_v7())
}

/// A running workspace's machine, as it is recorded.
pub(super) fn state_of(machine: &Machine) -> WorkspaceState {
    WorkspaceState::Running { machine: json!({ "pid": machine.pid }) }
}

pub(super) fn insert_disk(
    tx: &Tx<'_>,
    id: DiskId,
    parent: Option<DiskId>,
) -> Result<(), agentiso_meta::MetaError> {
    tx.insert_disk(&DiskRow { id, parent, frozen: false, span: 1, workspace: None })
}

pub(super) fn not_running(workspace: &Workspace) -> Failure {
    Failure::new(
        Code::WorkspaceNotRunning,
        format!("the workspace {:?} is not running", workspace.name.as_str()),
    )
    .with_remedy("start it")
}
