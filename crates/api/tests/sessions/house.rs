//! An engine with sessions and workspaces but without machines.

use std::sync::Arc;

use agentiso_api::{Answer, Call, EngineBackend, catalogue};
use agentiso_config::paths::Paths;
use agentiso_core::action::SnapshotKind;
use agentiso_core::ports::{AllowAll, DiskSource};
use agentiso_core::progress::Silent;
use agentiso_core::{DiskId, Failure, Resources, SessionId, SnapshotId, WorkspaceId};
use agentiso_engine::{Caller, Engine, Ports};
use agentiso_meta::{Disk, Meta, SessionKind, Settings, Snapshot, Workspace, WorkspaceState};
use agentiso_runtime::workspaces::Workspaces;
use agentiso_runtime::{BootClock, HostPackages, Installation};
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// A snapshot of every workspace.
pub const SNAPSHOT: &str = "first";

/// An engine in its own directory.
pub struct House {
    pub engine: Arc<Engine>,
    pub meta: Meta,
    pub installation: Installation,
    _dir: TempDir,
}

/// Everything stored about a workspace.
#[derive(Debug, PartialEq)]
pub struct Stored {
    workspace: Workspace,
    settings: Settings,
    snapshots: Vec<Snapshot>,
    forwards: usize,
}

impl Stored {
    pub fn workspace_name(&self) -> &str {
        self.workspace.name.as_str()
    }
}

impl House {
    pub async fn new() -> Self {
        Self::configured("").await
    }

    pub async fn configured(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_owned();
        let paths = Paths {
            run_dir: home.join("run"),
            config_file: home.join("config.toml"),
            config_named: true,
            home,
        };
        let config = format!("{config}\n[rate_limit]\nenabled = false\n");
        std::fs::write(&paths.config_file, config).unwrap();
        let installation = Installation::open(paths).unwrap();
        let engine = open(&installation).await;
        let meta = Meta::open(&installation.paths.state_file()).unwrap();
        Self { engine, meta, installation, _dir: dir }
    }

    /// Creates a session and returns its caller.
    pub async fn session(&self, client: &str) -> Caller {
        let begun = self.engine.begin_session(SessionKind::Mcp, client).await.unwrap();
        Caller { session: Some(begun.id), client: client.to_owned() }
    }

    /// The names of a workspace's variables that a caller sees.
    pub async fn env_names(&self, caller: &Caller, workspace: &str) -> Value {
        let nothing = json!({ "workspace_id": workspace, "vars": {} });
        self.call(caller, "set_env", nothing).await.unwrap().structured["names"].clone()
    }

    /// Adds a stopped workspace with the snapshots [`SNAPSHOT`] and `NAME-only`.
    pub fn workspace(&self, name: &str, owner: Option<SessionId>) -> Workspace {
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let disks = [(); 3].map(|()| DiskId::from_uuid(Uuid::now_v7()));
        let workspace = Workspace {
            id,
            name: name.parse().unwrap(),
            image: "debian".parse().unwrap(),
            image_identity: "blake3:0123".to_owned(),
            resources: Resources::default(),
            created: now(),
            state: WorkspaceState::Stopped { reason: None },
            disk: disks[2],
            position: None,
            lineage: None,
            from_pool: false,
            tier: "cold".to_owned(),
            network: Default::default(),
        };
        let snapshot = |name: String, disk| Snapshot {
            id: SnapshotId::from_uuid(Uuid::now_v7()),
            workspace: id,
            name: name.parse().unwrap(),
            kind: SnapshotKind::User,
            description: String::new(),
            parent: None,
            created: now(),
            disk,
            memory: None,
        };
        let written = self.meta.write(|tx| {
            for disk in disks {
                tx.insert_disk(&Disk { id: disk, parent: None, frozen: false, span: 1, workspace: None })?;
            }
            tx.insert_workspace(&workspace)?;
            for (name, disk) in [(SNAPSHOT.to_owned(), disks[0]), (format!("{name}-only"), disks[1])] {
                tx.freeze_disk(disk)?;
                tx.insert_snapshot(&snapshot(name, disk))?;
            }
            tx.set_owner(id, owner)
        });
        written.unwrap();
        workspace
    }

    /// Gives a snapshot of a workspace another kind.
    pub fn set_kind(&self, id: WorkspaceId, snapshot: &str, kind: SnapshotKind) {
        let changed = self.meta.write(|tx| {
            let found = tx.find_snapshot(id, snapshot)?;
            tx.remove_snapshot(found.id)?;
            tx.insert_snapshot(&Snapshot { kind, ..found })
        });
        changed.unwrap();
    }

    /// Makes the files of a workspace's disks, so that their sizes can be told.
    pub fn make_disk_files(&self, id: WorkspaceId) {
        let disks = self.meta.read(|read| {
            let of_snapshots = read.snapshots(id)?.into_iter().map(|snapshot| snapshot.disk);
            Ok(of_snapshots.chain([read.workspace(id)?.disk]).collect::<Vec<_>>())
        });
        let (dir, size) = (self.installation.paths.disks_dir(), 1 << 20);
        std::fs::create_dir_all(&dir).unwrap();
        let base = self.installation.paths.home.join("base.raw");
        std::fs::write(&base, vec![0; size]).unwrap();
        for disk in disks.unwrap() {
            let path = dir.join(format!("{disk}.{}", self.installation.disks().extension()));
            self.installation.disks().create(&path, &DiskSource::Raw(base.clone()), size as u64).unwrap();
        }
    }

    pub fn stored(&self, id: WorkspaceId) -> Stored {
        let stored = self.meta.read(|read| {
            Ok(Stored {
                workspace: read.workspace(id)?,
                settings: read.settings(id)?,
                snapshots: read.snapshots(id)?,
                forwards: read.forwards_of(id)?.len(),
            })
        });
        stored.unwrap()
    }

    /// Whether there is such a workspace.
    pub fn exists(&self, id: WorkspaceId) -> bool {
        self.meta.read(|read| read.workspace_if_known(id)).unwrap().is_some()
    }

    /// Sets a label on a workspace.
    pub fn label(&self, id: WorkspaceId, key: &str, value: &str) {
        let labelled = self.meta.write(|tx| {
            let mut settings = tx.settings(id)?;
            settings.labels.insert(key.to_owned(), value.to_owned());
            tx.set_settings(id, &settings)
        });
        labelled.unwrap();
    }

    pub fn owner(&self, id: WorkspaceId) -> Option<SessionId> {
        self.meta.read(|read| read.settings(id)).unwrap().owner
    }

    /// Performs an action by name, like every client.
    pub async fn call(&self, caller: &Caller, action: &str, arguments: Value) -> Result<Answer, Failure> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let action = catalogue::find(action).unwrap().about.name;
        let call = Call { action, arguments, progress: Arc::new(Silent) };
        EngineBackend::shared(&self.engine).call(caller, call).await
    }
}

/// Opens the engine of an installation, as the daemon does.
pub async fn open(installation: &Installation) -> Arc<Engine> {
    let host = Arc::new(Workspaces::open_to_stay(installation).await.unwrap());
    let records = Arc::clone(host.meta());
    let clock = Arc::new(BootClock::open(&installation.paths.home));
    let ports = Ports {
        host: Arc::clone(&host) as _,
        records,
        clock,
        policy: Arc::new(AllowAll),
        network: host,
        packages: Arc::new(HostPackages),
    };
    Engine::open(ports, installation.engine_settings(Vec::new())).await.unwrap()
}

/// The current time, to the microsecond, as it is stored.
fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}
