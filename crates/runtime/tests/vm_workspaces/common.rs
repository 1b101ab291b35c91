//! A home with workspaces.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_config::paths::Paths;
use agentiso_core::action::SnapshotKind;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Failure, Resources, SnapshotId, WorkspaceId};
use agentiso_proto::Exec;
use agentiso_runtime::Installation;
use agentiso_runtime::guest::ProcessEvent;
use agentiso_runtime::workspaces::{
    CreateRequest, ForkOutcome, ForkRequest, ForkSource, RemoveRequest, SnapshotRequest, Snapshotted,
    WorkspaceView, Workspaces,
};
use agentiso_testing::TestHome;

/// How long an expected event may take on a busy or emulated host.
const SOON: Duration = Duration::from_secs(600);

/// The test's own installation. Kills all its machines on drop.
pub struct Home {
    pub workspaces: Workspaces,
    pub home: TestHome,
}

impl Home {
    pub async fn new() -> Self {
        Self::of(TestHome::new()).await
    }

    pub async fn of(home: TestHome) -> Self {
        Self { workspaces: open(home.path()).await, home }
    }

    pub async fn create(&self, name: &str) -> WorkspaceView {
        self.create_as(&request(name)).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    pub async fn create_as(&self, request: &CreateRequest) -> Result<WorkspaceView, Failure> {
        self.workspaces.create(request, &silent()).await
    }

    /// The id of the workspace with this name.
    pub fn id(&self, name: &str) -> WorkspaceId {
        self.workspaces.meta().read(|read| read.find_workspace(name)).unwrap().id
    }

    /// The id of a snapshot.
    pub fn snapshot_id(&self, workspace: &str, name: &str) -> Result<SnapshotId, Failure> {
        let id = self.id(workspace);
        Ok(self.workspaces.meta().read(|read| read.find_snapshot(id, name))?.id)
    }

    pub async fn restore(&self, workspace: &str, name: &str) {
        let snapshot = self.snapshot_id(workspace, name).unwrap();
        self.workspaces.restore(self.id(workspace), snapshot, false, &silent()).await.unwrap();
    }

    pub async fn remove_snapshot(&self, workspace: &str, name: &str) {
        let snapshot = self.snapshot_id(workspace, name).unwrap();
        self.workspaces.remove_snapshot(self.id(workspace), snapshot).await.unwrap();
    }

    pub async fn start(&self, name: &str) {
        self.workspaces.start(self.id(name), &silent()).await.unwrap();
    }

    pub async fn stop(&self, name: &str) {
        self.workspaces.stop(self.id(name), false, None).await.unwrap();
    }

    pub async fn remove(&self, name: &str) {
        let request = RemoveRequest { workspace: self.id(name), force: true };
        self.workspaces.remove(&request).await.unwrap_or_else(|failure| panic!("{failure:?}"));
    }

    pub async fn snapshot(&self, workspace: &str, name: &str, memory: bool) -> Snapshotted {
        let request = SnapshotRequest {
            workspace: self.id(workspace),
            name: name.parse().unwrap(),
            kind: SnapshotKind::User,
            description: String::new(),
            memory,
        };
        self.workspaces.snapshot(&request).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    pub async fn fork(&self, workspace: &str, name: &str, count: u32) -> ForkOutcome {
        self.fork_from(workspace, ForkSource::Now, name, count).await
    }

    pub async fn fork_from(
        &self,
        workspace: &str,
        source: ForkSource,
        name: &str,
        count: u32,
    ) -> ForkOutcome {
        let request = ForkRequest {
            workspace: self.id(workspace),
            source,
            name: Some(name.parse().unwrap()),
            count,
            all_or_nothing: true,
            owner: None,
            network: None,
        };
        self.workspaces.fork(&request, &silent()).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// Runs a shell line that must succeed, and returns its output.
    pub async fn sh(&self, workspace: &str, line: &str) -> String {
        let attached =
            self.workspaces.attach(self.id(workspace)).await.unwrap_or_else(|failure| panic!("{failure:?}"));
        let argv = ["/bin/sh", "-c", line].iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut process = attached.machine().guest().exec(Exec { argv, ..Exec::default() }).await.unwrap();
        let mut printed = Vec::new();
        while let Some(output) = process.next().await.unwrap() {
            match output {
                ProcessEvent::Stdout(bytes) => printed.extend_from_slice(&bytes),
                ProcessEvent::Stderr(bytes) => panic!("{line}: {}", String::from_utf8_lossy(&bytes)),
                _ => {}
            }
        }
        String::from_utf8(printed).unwrap()
    }

    /// Runs a shell line repeatedly until its output satisfies a predicate.
    pub async fn until(&self, workspace: &str, line: &str, pleases: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + SOON;
        loop {
            let printed = self.sh(workspace, line).await;
            if pleases(&printed) {
                return printed;
            }
            assert!(Instant::now() < deadline, "{line} still prints {printed:?}");
        }
    }

    /// Files below a directory of the home.
    pub fn files(&self, dir: &str) -> Vec<String> {
        let mut found = Vec::new();
        walk(&self.home.path().join(dir), &mut found);
        found
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for pid in self.home.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn walk(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        // Files of the back end begin with a dot.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            found.push(path.to_string_lossy().into_owned());
        }
    }
}

pub fn paths(home: &Path) -> Paths {
    Paths {
        home: home.to_owned(),
        run_dir: home.join("run"),
        config_file: home.join("config.toml"),
        config_named: true,
    }
}

pub async fn open(home: &Path) -> Workspaces {
    let installation = Installation::open(paths(home)).unwrap_or_else(|failure| panic!("{failure:?}"));
    Workspaces::open(&installation).await.unwrap_or_else(|failure| panic!("{failure:?}"))
}

pub fn request(name: &str) -> CreateRequest {
    CreateRequest {
        name: Some(name.parse().unwrap()),
        image: "debian".parse().unwrap(),
        resources: Resources { memory_mb: 256, ..Resources::default() },
        cold: false,
        pool: true,
        owner: None,
        one_shot: false,
        network: Default::default(),
    }
}

pub fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}
