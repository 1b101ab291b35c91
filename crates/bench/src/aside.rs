//! A temporary installation for the measured workspaces, separate from the user's own.

use std::os::unix::fs::symlink;
use std::sync::Arc;

use agentiso_core::action::SnapshotKind;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Failure, NetworkRules, Resources, WorkspaceId, WorkspaceName};
use agentiso_proto::Exec;

use agentiso_config::paths::Paths;
use agentiso_runtime::Installation;
use agentiso_runtime::guest::ProcessEvent;
use agentiso_runtime::workspaces::{
    CreateRequest, ForkOutcome, ForkRequest, ForkSource, RemoveRequest, Restored, SnapshotRequest,
    Snapshotted, WorkspaceView, Workspaces,
};

/// Directories that are shared with the installation.
const SHARED: [&str; 4] = ["images", "kernel", "templates", "cache"];
/// Memory of the measured machines.
const MEMORY_MB: u32 = 256;

/// Workspaces in a temporary directory.
pub(super) struct Aside {
    pub workspaces: Workspaces,
    _dir: tempfile::TempDir,
}

impl Aside {
    /// Creates the directory. Kernel, images and templates are those of the installation.
    pub async fn new(installation: &Installation) -> Result<Self, Failure> {
        let home = &installation.paths.home;
        let place = || {
            let dir = tempfile::Builder::new().prefix("bench-").tempdir_in(home)?;
            for name in SHARED {
                symlink(home.join(name), dir.path().join(name))?;
            }
            Ok(dir)
        };
        let dir =
            place().map_err(|error| installation.io("create a directory for the measurements", error))?;
        let paths = Paths {
            home: dir.path().to_owned(),
            run_dir: dir.path().join("run"),
            ..installation.paths.clone()
        };
        let workspaces = Workspaces::open(&Installation::open(paths)?).await?;
        Ok(Self { workspaces, _dir: dir })
    }

    pub async fn create(&self, name: &str, pool: bool) -> Result<WorkspaceView, Failure> {
        self.create_as(name, self.resources(), pool).await
    }

    /// Creates a workspace that may reach the internet.
    pub async fn create_online(&self, name: &str) -> Result<WorkspaceView, Failure> {
        let network = NetworkRules { allow_internet: true, ..NetworkRules::default() };
        let request = CreateRequest { network, ..self.request(name, self.resources(), false)? };
        self.workspaces.create(&request, &silent()).await
    }

    /// Creates a workspace of any size.
    pub async fn create_as(
        &self,
        name: &str,
        resources: Resources,
        pool: bool,
    ) -> Result<WorkspaceView, Failure> {
        self.workspaces.create(&self.request(name, resources, pool)?, &silent()).await
    }

    fn request(&self, name: &str, resources: Resources, pool: bool) -> Result<CreateRequest, Failure> {
        Ok(CreateRequest {
            name: Some(name.parse::<WorkspaceName>()?),
            image: self.workspaces.installation().config.defaults.image_name()?,
            resources,
            cold: false,
            pool,
            owner: None,
            one_shot: false,
            network: Default::default(),
        })
    }

    fn id_of(&self, name: &str) -> Result<WorkspaceId, Failure> {
        Ok(self.workspaces.meta().read(|read| read.find_workspace(name))?.id)
    }

    /// Restores a workspace to one of its snapshots.
    pub async fn restore(&self, workspace: &str, snapshot: &str) -> Result<Restored, Failure> {
        let id = self.id_of(workspace)?;
        let snapshot = self.workspaces.meta().read(|read| read.find_snapshot(id, snapshot))?;
        self.workspaces.restore(id, snapshot.id, false, &silent()).await
    }

    /// The size of the measured machines.
    pub fn resources(&self) -> Resources {
        Resources { memory_mb: MEMORY_MB, ..self.workspaces.installation().config.defaults.resources() }
    }

    pub async fn fork(&self, workspace: &str, name: &str, count: u32) -> Result<ForkOutcome, Failure> {
        let request = ForkRequest {
            workspace: self.id_of(workspace)?,
            source: ForkSource::Now,
            name: Some(name.parse()?),
            count,
            all_or_nothing: true,
            owner: None,
            network: None,
        };
        self.workspaces.fork(&request, &silent()).await
    }

    pub async fn snapshot(&self, workspace: &str, name: &str, memory: bool) -> Result<Snapshotted, Failure> {
        let request = SnapshotRequest {
            workspace: self.id_of(workspace)?,
            name: name.parse()?,
            kind: SnapshotKind::User,
            description: String::new(),
            memory,
        };
        self.workspaces.snapshot(&request).await
    }

    /// Runs a command and waits until it exits.
    pub async fn run(&self, workspace: &str, argv: &[&str]) -> Result<(), Failure> {
        let attached = self.workspaces.attach(self.id_of(workspace)?).await?;
        let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
        let machine = attached.machine();
        let ran = async {
            let mut process = machine.guest().exec(Exec { argv, ..Exec::default() }).await?;
            while let Some(event) = process.next().await? {
                if let ProcessEvent::Exited(_) = event {
                    break;
                }
            }
            Ok(())
        };
        machine.during("running a command", super::travel::LIMIT, ran).await?;
        Ok(())
    }

    pub async fn remove(&self, name: &str) -> Result<(), Failure> {
        self.workspaces.remove(&RemoveRequest { workspace: self.id_of(name)?, force: true }).await
    }

    /// Stops everything that was started here.
    pub async fn clear(self) -> Result<(), Failure> {
        for workspace in self.workspaces.list()? {
            self.remove(workspace.name.as_str()).await?;
        }
        self.workspaces.empty_pool()
    }
}

pub(super) fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}
