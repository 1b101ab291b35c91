//! The host port. Every call may be told to fail or to hang before it does anything.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agentiso_core::ports::host::{
    Changes, CompareRequest, CreateRequest, Exported, ForkOutcome, ForkRequest, Logs, MachineEnded,
    PoolState, RemoveRequest, Restored, SnapshotRequest, SnapshotView, Snapshotted, TextDiff, WorkspaceHost,
    WorkspaceView,
};
use agentiso_core::ports::link::Link;
use agentiso_core::progress::Progress;
use agentiso_core::{
    Code, Failure, NetworkRules, NetworkState, Resources, SnapshotId, WorkspaceId, WorkspaceName,
};
use async_trait::async_trait;

use super::state::{FakeHost, HostCall, not_running};
use crate::fake::link::FakeLink;
use crate::fake::machine::locked;

#[async_trait]
impl WorkspaceHost for FakeHost {
    async fn list(&self) -> Result<Vec<WorkspaceView>, Failure> {
        self.pass(HostCall::List).await?;
        self.views()
    }

    async fn info(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure> {
        self.pass(HostCall::Info).await?;
        self.view(id)
    }

    async fn create(
        &self,
        request: &CreateRequest,
        _progress: &Arc<dyn Progress>,
    ) -> Result<WorkspaceView, Failure> {
        self.pass(HostCall::Create).await?;
        self.create_workspace(request).await
    }

    async fn start(&self, id: WorkspaceId, _progress: &Arc<dyn Progress>) -> Result<WorkspaceView, Failure> {
        self.pass(HostCall::Start).await?;
        self.start_workspace(id).await
    }

    async fn stop(&self, id: WorkspaceId, force: bool, _limit: Option<Duration>) -> Result<bool, Failure> {
        self.pass(HostCall::Stop).await?;
        self.stop_workspace(id, force).await
    }

    async fn switch_off(&self, id: WorkspaceId) -> Result<bool, Failure> {
        self.pass(HostCall::SwitchOff).await?;
        self.end_machine(id)
    }

    async fn remove(&self, request: &RemoveRequest) -> Result<(), Failure> {
        self.pass(HostCall::Remove).await?;
        self.remove_workspace(request).await
    }

    async fn rename(&self, id: WorkspaceId, name: &WorkspaceName) -> Result<WorkspaceView, Failure> {
        self.pass(HostCall::Rename).await?;
        self.rename_workspace(id, name).await
    }

    async fn grow(&self, id: WorkspaceId, disk_gb: u32) -> Result<WorkspaceView, Failure> {
        self.pass(HostCall::Grow).await?;
        self.grow_workspace(id, disk_gb).await
    }

    async fn set_network(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        self.pass(HostCall::SetNetwork).await?;
        self.change_network(id, rules).await
    }

    async fn snapshot(&self, request: &SnapshotRequest) -> Result<Snapshotted, Failure> {
        self.pass(HostCall::Snapshot).await?;
        self.take_snapshot(request).await
    }

    async fn snapshots(&self, id: WorkspaceId) -> Result<Vec<SnapshotView>, Failure> {
        self.pass(HostCall::Snapshots).await?;
        self.snapshot_views(id)
    }

    async fn remove_snapshot(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<(), Failure> {
        self.pass(HostCall::RemoveSnapshot).await?;
        self.delete_snapshot(workspace, snapshot).await
    }

    async fn size_at(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<Resources, Failure> {
        self.pass(HostCall::SizeAt).await?;
        self.size_then(&self.workspace(workspace)?, &self.snapshot_of(workspace, snapshot)?)
    }

    async fn restore(
        &self,
        workspace: WorkspaceId,
        snapshot: SnapshotId,
        disk_only: bool,
        _progress: &Arc<dyn Progress>,
    ) -> Result<Restored, Failure> {
        self.pass(HostCall::Restore).await?;
        self.restore_workspace(workspace, snapshot, disk_only).await
    }

    async fn fork(
        &self,
        request: &ForkRequest,
        _progress: &Arc<dyn Progress>,
    ) -> Result<ForkOutcome, Failure> {
        self.pass(HostCall::Fork).await?;
        self.fork_workspace(request).await
    }

    async fn compare(&self, request: &CompareRequest) -> Result<Changes, Failure> {
        self.pass(HostCall::Compare).await?;
        self.changes(request)
    }

    async fn compare_file(&self, request: &CompareRequest, path: &str) -> Result<TextDiff, Failure> {
        self.pass(HostCall::CompareFile).await?;
        self.text_change(request, path)
    }

    async fn export(
        &self,
        workspace: WorkspaceId,
        labels: BTreeMap<String, String>,
        max_bytes: u64,
        out: Box<dyn Write + Send>,
        _progress: &Arc<dyn Progress>,
    ) -> Result<Exported, Failure> {
        self.pass(HostCall::Export).await?;
        self.write_archive(workspace, labels, max_bytes, out)
    }

    async fn link(&self, id: WorkspaceId) -> Result<Link, Failure> {
        self.pass(HostCall::Link).await?;
        let workspace = self.workspace(id)?;
        match self.reach(&workspace)? {
            Some(machine) => {
                // A machine that stands still tries again when it is used.
                machine.set_still(false);
                Ok(Arc::new(FakeLink::new(machine)))
            }
            None => Err(not_running(&workspace)),
        }
    }

    async fn standstill(&self, id: WorkspaceId) -> Failure {
        match self.running(id) {
            Some(machine) => {
                machine.wait_for_standstill().await;
                Failure::new(Code::DiskFull, "the machine stands still because the disk of the host is full")
            }
            None => std::future::pending().await,
        }
    }

    fn machine_end(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let machine = locked(&self.inner.by_pid).get(&pid).cloned();
        Box::pin(async move {
            if let Some(machine) = machine {
                machine.wait_for_end().await;
            }
        })
    }

    async fn note_if_ended(
        &self,
        id: WorkspaceId,
        pid: Option<u32>,
    ) -> Result<Option<MachineEnded>, Failure> {
        self.pass(HostCall::NoteIfEnded).await?;
        self.note_end(id, pid).await
    }

    async fn explain_end(&self, id: WorkspaceId, failure: Failure) -> Failure {
        match self.last_words(id) {
            Some(words) => failure.because(&words),
            None => failure,
        }
    }

    async fn logs(&self, id: WorkspaceId, lines: usize) -> Result<Logs, Failure> {
        self.pass(HostCall::Logs).await?;
        self.workspace(id)?;
        let console = self.running(id).map(|machine| machine.console()).unwrap_or_default();
        let all: Vec<&str> = console.split_inclusive('\n').collect();
        Ok(Logs { console: all[all.len().saturating_sub(lines)..].concat(), qemu: String::new() })
    }

    async fn disk_used_bytes(&self, id: WorkspaceId) -> Result<u64, Failure> {
        self.pass(HostCall::DiskUsedBytes).await?;
        Ok(self.files(self.workspace(id)?.disk)?.bytes())
    }

    fn expect_creates(&self) {
        self.inner.expected_creates.fetch_add(1, Ordering::SeqCst);
    }

    async fn pool_state(&self) -> Result<PoolState, Failure> {
        self.pass(HostCall::PoolState).await?;
        Ok(locked(&self.inner.pool).clone())
    }

    async fn empty_pool(&self) -> Result<(), Failure> {
        self.pass(HostCall::EmptyPool).await?;
        locked(&self.inner.pool).ready = 0;
        Ok(())
    }

    async fn needs_maintenance(&self) -> bool {
        false
    }

    async fn maintain(&self, _progress: &Arc<dyn Progress>) -> Result<(), Failure> {
        self.pass(HostCall::Maintain).await
    }
}
