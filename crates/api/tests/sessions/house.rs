//! An engine with sessions and workspaces, but without machines.

use std::sync::Arc;

use agentiso_api::{Answer, Call, EngineBackend, catalogue};
use agentiso_config::paths::Paths;
use agentiso_core::progress::Silent;
use agentiso_core::{DiskId, Failure, Resources, SessionId, SnapshotId, WorkspaceId};
use agentiso_engine::{Caller, Engine};
use agentiso_meta::{Disk, Meta, SessionKind, Settings, Snapshot, Workspace, WorkspaceState};
use agentiso_runtime::Installation;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// The snapshot that every workspace has.
pub const SNAPSHOT: &str = "first";

/// An engine in a directory of its own.
pub struct House {
    pub engine: Arc<Engine>,
    pub meta: Meta,
    pub installation: Installation,
    _dir: TempDir,
}

/// Everything that is stored about a workspace.
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
        let engine = Engine::open(&installation, Vec::new()).await.unwrap();
        let meta = Meta::open(&installation.paths.state_file()).unwrap();
        Self { engine, meta, installation, _dir: dir }
    }

    /// A new session's client.
    pub fn session(&self, client: &str) -> Caller {
        let begun = self.engine.begin_session(SessionKind::Mcp, client).unwrap();
        Caller { session: Some(begun.id), client: client.to_owned() }
    }

    /// The names of the variables that a workspace has for a caller.
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
        };
        let snapshot = |name: String, disk| Snapshot {
            id: SnapshotId::from_uuid(Uuid::now_v7()),
            workspace: id,
            name: name.parse().unwrap(),
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

    /// Puts a label on a workspace.
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

    /// Carries out an action by its name, as every client does.
    pub async fn call(&self, caller: &Caller, action: &str, arguments: Value) -> Result<Answer, Failure> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let action = catalogue::find(action).unwrap().about.name;
        let call = Call { action, arguments, progress: Arc::new(Silent) };
        EngineBackend::shared(&self.engine).call(caller, call).await
    }
}

/// The time as it is stored: to the microsecond.
fn now() -> Timestamp {
    Timestamp::from_microsecond(Timestamp::now().as_microsecond()).unwrap()
}
