//! The workspaces themselves. Every method calls the inherent method behind it.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use agentiso_core::ports::host::{
    Changes, CompareRequest, CreateRequest, Exported, ForkOutcome, ForkRequest, Logs, MachineEnded,
    PoolState, RemoveRequest, Restored, SnapshotRequest, SnapshotView, Snapshotted, TextDiff, WorkspaceHost,
    WorkspaceView,
};
use agentiso_core::ports::link::Link;
use agentiso_core::progress::Progress;
use agentiso_core::{Failure, NetworkRules, NetworkState, Resources, SnapshotId, WorkspaceId, WorkspaceName};
use agentiso_vmm::qemu::process_end;
use async_trait::async_trait;

use crate::workspaces::Workspaces;

#[async_trait]
impl WorkspaceHost for Workspaces {
    async fn list(&self) -> Result<Vec<WorkspaceView>, Failure> {
        Self::list(self)
    }

    async fn info(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure> {
        Self::info(self, id)
    }

    async fn create(
        &self,
        request: &CreateRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<WorkspaceView, Failure> {
        Self::create(self, request, progress).await
    }

    async fn start(&self, id: WorkspaceId, progress: &Arc<dyn Progress>) -> Result<WorkspaceView, Failure> {
        Self::start(self, id, progress).await
    }

    async fn stop(&self, id: WorkspaceId, force: bool, limit: Option<Duration>) -> Result<bool, Failure> {
        Self::stop(self, id, force, limit).await
    }

    async fn switch_off(&self, id: WorkspaceId) -> Result<bool, Failure> {
        Self::switch_off(self, id).await
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<(), Failure> {
        Self::remove(self, request).await?;
        // What is left of a workspace that is gone can be used by nobody, and is forgotten with the next change.
        let id = request.workspace;
        if let Err(failure) = self.in_vault(move |vault| vault.forget(id)).await {
            tracing::warn!(%failure, workspace = %id, "could not forget the secrets of a removed workspace");
        }
        Ok(())
    }

    async fn rename(&self, id: WorkspaceId, name: &WorkspaceName) -> Result<WorkspaceView, Failure> {
        Self::rename(self, id, name).await
    }

    async fn grow(&self, id: WorkspaceId, disk_gb: u32) -> Result<WorkspaceView, Failure> {
        Self::grow(self, id, disk_gb).await
    }

    async fn set_network(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        Self::set_network(self, id, rules).await
    }

    async fn snapshot(&self, request: &SnapshotRequest) -> Result<Snapshotted, Failure> {
        Self::snapshot(self, request).await
    }

    async fn snapshots(&self, id: WorkspaceId) -> Result<Vec<SnapshotView>, Failure> {
        Self::snapshots(self, id)
    }

    async fn remove_snapshot(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<(), Failure> {
        Self::remove_snapshot(self, workspace, snapshot).await
    }

    async fn size_at(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<Resources, Failure> {
        let (workspace, snapshot) =
            self.meta.read(|read| Ok((read.workspace(workspace)?, read.snapshot(snapshot)?)))?;
        self.size_then(&workspace, &snapshot)
    }

    async fn restore(
        &self,
        workspace: WorkspaceId,
        snapshot: SnapshotId,
        disk_only: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        Self::restore(self, workspace, snapshot, disk_only, progress).await
    }

    async fn fork(
        &self,
        request: &ForkRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        Self::fork(self, request, progress).await
    }

    async fn compare(&self, request: &CompareRequest) -> Result<Changes, Failure> {
        Self::compare(self, request).await
    }

    async fn compare_file(&self, request: &CompareRequest, path: &str) -> Result<TextDiff, Failure> {
        Self::compare_file(self, request, path).await
    }

    async fn export(
        &self,
        workspace: WorkspaceId,
        labels: BTreeMap<String, String>,
        max_bytes: u64,
        out: Box<dyn Write + Send>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Exported, Failure> {
        Self::export(self, workspace, labels, max_bytes, out, progress).await
    }

    async fn link(&self, id: WorkspaceId) -> Result<Link, Failure> {
        Ok(Arc::new(self.guest(id).await?))
    }

    async fn standstill(&self, id: WorkspaceId) -> Failure {
        Self::standstill(self, id).await
    }

    fn machine_end(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(process_end(pid))
    }

    async fn note_if_ended(
        &self,
        id: WorkspaceId,
        pid: Option<u32>,
    ) -> Result<Option<MachineEnded>, Failure> {
        let ended = Self::note_if_ended(self, id, pid).await?;
        Ok(ended.map(|workspace| MachineEnded { reason: self.last_words(&workspace), workspace }))
    }

    async fn explain_end(&self, id: WorkspaceId, failure: Failure) -> Failure {
        match self.meta.read(|read| read.workspace(id)) {
            Ok(workspace) => Self::explain_end(self, &workspace, failure),
            // It was removed meanwhile.
            Err(_) => failure,
        }
    }

    async fn logs(&self, id: WorkspaceId, lines: usize) -> Result<Logs, Failure> {
        let workspace = self.meta.read(|read| read.workspace(id))?;
        Self::logs(self, &workspace, lines)
    }

    async fn disk_used_bytes(&self, id: WorkspaceId) -> Result<u64, Failure> {
        let workspace = self.meta.read(|read| read.workspace(id))?;
        Self::disk_used_bytes(self, &workspace)
    }

    fn expect_creates(&self) {
        Self::expect_creates(self);
    }

    async fn pool_state(&self) -> Result<PoolState, Failure> {
        Self::pool_state(self)
    }

    async fn empty_pool(&self) -> Result<(), Failure> {
        Self::empty_pool(self)
    }

    async fn needs_maintenance(&self) -> bool {
        Self::needs_maintenance(self)
    }

    async fn maintain(&self, progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        Self::maintain(self, progress).await.map(drop)
    }
}
