//! A host, and what the suite needs beside it.

use std::sync::Arc;

use agentiso_core::action::SnapshotKind;
use agentiso_core::ports::host::{
    CreateRequest, ForkRequest, ForkSource, RemoveRequest, SnapshotRequest, Snapshotted, WorkspaceHost,
    WorkspaceView,
};
use agentiso_core::ports::link::Link;
use agentiso_core::ports::records::Records;
use agentiso_core::progress::{Progress, Silent};
use agentiso_core::{Code, Failure, ImageName, NetworkRules, Resources, WorkspaceId, WorkspaceName};

use crate::links::shell;

/// A host to test, which has no workspaces.
pub struct HostLab {
    /// The host.
    pub host: Arc<dyn WorkspaceHost>,
    /// Its records.
    pub records: Arc<dyn Records>,
    /// An image that it has.
    pub image: ImageName,
    /// Everything that its workspaces and snapshots keep beside the records, by name.
    pub kept: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// A command line that serves a port and repeats what it hears. It prints a line when it is ready.
    pub echo_server: fn(u16) -> String,
}

impl HostLab {
    /// A workspace to create.
    pub(super) fn request(&self, name: &str) -> CreateRequest {
        CreateRequest {
            name: Some(name_of(name)),
            image: self.image.clone(),
            resources: Resources { memory_mb: 256, ..Resources::default() },
            cold: false,
            pool: false,
            owner: None,
            one_shot: false,
            network: NetworkRules::default(),
        }
    }

    /// Creates a workspace.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub async fn create(&self, name: &str) -> WorkspaceView {
        self.host.create(&self.request(name), &silent()).await.expect("a workspace")
    }

    pub(super) async fn start(&self, id: WorkspaceId) -> WorkspaceView {
        self.host.start(id, &silent()).await.expect("a workspace that starts")
    }

    pub(super) async fn stop(&self, id: WorkspaceId) {
        self.host.stop(id, false, None).await.expect("a workspace that stops");
    }

    /// Removes a workspace, whether it runs or not.
    ///
    /// # Panics
    ///
    /// If it cannot be removed.
    pub async fn remove(&self, id: WorkspaceId) {
        self.host.remove(&RemoveRequest { workspace: id, force: true }).await.expect("a removal");
    }

    pub(super) async fn snapshot(&self, id: WorkspaceId, name: &str, memory: bool) -> Snapshotted {
        let taken = self.host.snapshot(&snapshot_request(id, name, memory)).await;
        taken.expect("a snapshot")
    }

    pub(super) async fn fork(&self, id: WorkspaceId, source: ForkSource, name: &str) -> WorkspaceView {
        let outcome = self.host.fork(&fork_request(id, source, name, 1), &silent()).await.expect("a fork");
        let fork = outcome.forks.into_iter().next().expect("one fork");
        fork.result.expect("a fork that was made").0
    }

    /// The way into a workspace.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub async fn link(&self, id: WorkspaceId) -> Link {
        self.host.link(id).await.expect("a link")
    }

    /// What a command line prints, which must succeed.
    pub(super) async fn sh(&self, id: WorkspaceId, line: &str) -> String {
        shell(&*self.link(id).await, line).await
    }

    /// Checks that nothing is there, in the records and beside them.
    pub(super) async fn require_nothing(&self) {
        assert!(self.host.list().await.expect("a list").is_empty());
        assert!(self.records.workspaces().await.expect("records").is_empty());
        assert_eq!((self.kept)(), Vec::<String>::new(), "something is left");
    }
}

pub(super) fn silent() -> Arc<dyn Progress> {
    Arc::new(Silent)
}

pub(super) fn name_of(name: &str) -> WorkspaceName {
    name.parse().expect("the name of a workspace")
}

pub(super) fn snapshot_request(workspace: WorkspaceId, name: &str, memory: bool) -> SnapshotRequest {
    let name = name.parse().expect("the name of a snapshot");
    let (kind, description) = (SnapshotKind::User, "to be restored".to_owned());
    SnapshotRequest { workspace, name, kind, description, memory }
}

pub(super) fn fork_request(
    workspace: WorkspaceId,
    source: ForkSource,
    name: &str,
    count: u32,
) -> ForkRequest {
    let name = Some(name_of(name));
    ForkRequest { workspace, source, name, count, all_or_nothing: true, owner: None, network: None }
}

/// Checks that something was refused with a code.
#[track_caller]
pub(super) fn refused<T>(result: Result<T, Failure>, code: Code) {
    match result {
        Ok(_) => panic!("it was not refused with {code:?}"),
        Err(failure) => assert_eq!(failure.code(), code, "{failure}"),
    }
}
