//! The calls that create, change and end workspaces.

use std::collections::BTreeMap;
use std::io::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Changes, CompareRequest, CreateRequest, Exported, ForkOutcome, ForkRequest, ImageHost, Logs,
    MachineEnded, PoolState, RemoveRequest, Restored, SecretHost, SnapshotRequest, SnapshotView, Snapshotted,
    TextDiff, WorkspaceView,
};
use crate::ports::link::Link;
use crate::progress::Progress;
use crate::{Failure, NetworkRules, NetworkState, Resources, SnapshotId, WorkspaceId, WorkspaceName};

/// A host of workspaces. An operation that fails changes nothing. An operation on a workspace that does not
/// exist fails with `workspace_not_found`.
#[async_trait]
pub trait WorkspaceHost: ImageHost + SecretHost {
    /// All workspaces, oldest first.
    async fn list(&self) -> Result<Vec<WorkspaceView>, Failure>;

    /// One workspace.
    async fn info(&self, id: WorkspaceId) -> Result<WorkspaceView, Failure>;

    /// Creates a workspace and starts it; fails with `workspace_exists` if the name is taken.
    async fn create(
        &self,
        request: &CreateRequest,
        progress: &Arc<dyn Progress>,
    ) -> Result<WorkspaceView, Failure>;

    /// Starts a stopped workspace on its disk. One that runs is left as it is.
    async fn start(&self, id: WorkspaceId, progress: &Arc<dyn Progress>) -> Result<WorkspaceView, Failure>;

    /// Stops a workspace: cleanly, unless `force` or unless it takes longer than `limit`. Returns whether its file system
    /// was left clean. A workspace that does not run counts as clean.
    async fn stop(&self, id: WorkspaceId, force: bool, limit: Option<Duration>) -> Result<bool, Failure>;

    /// Kills the machine of a workspace at once, even while other operations use it. Its records stay unchanged until the
    /// caller stops or removes the workspace. Returns whether there was a machine.
    async fn switch_off(&self, id: WorkspaceId) -> Result<bool, Failure>;

    /// Removes a workspace, its snapshots and its machine. Forks of it are not affected. One that runs is refused with
    /// `workspace_running` unless the request forces it.
    async fn remove(&self, request: &RemoveRequest) -> Result<(), Failure>;

    /// Renames a workspace; fails with `workspace_exists` if the name is taken.
    async fn rename(&self, id: WorkspaceId, name: &WorkspaceName) -> Result<WorkspaceView, Failure>;

    /// Grows the disk of a running workspace and its file system with it.
    async fn grow(&self, id: WorkspaceId, disk_gb: u32) -> Result<WorkspaceView, Failure>;

    /// Changes what a workspace may reach, at once if it runs. Rules that are wrong are refused with `invalid_argument`,
    /// and rules that the host cannot carry out with `network_unavailable`; then the old ones stay in force. The rules
    /// belong to the workspace: they survive stops, starts and restores.
    async fn set_network(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<NetworkState, Failure>;

    /// Takes a snapshot of a workspace, running or stopped; one with memory needs a running one. Fails with
    /// `snapshot_exists` if the name is taken.
    async fn snapshot(&self, request: &SnapshotRequest) -> Result<Snapshotted, Failure>;

    /// The snapshots of a workspace, oldest first.
    async fn snapshots(&self, id: WorkspaceId) -> Result<Vec<SnapshotView>, Failure>;

    /// Removes a snapshot; fails with `snapshot_in_use` if a fork needs it.
    async fn remove_snapshot(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<(), Failure>;

    /// The size a workspace had when a snapshot of it was taken.
    async fn size_at(&self, workspace: WorkspaceId, snapshot: SnapshotId) -> Result<Resources, Failure>;

    /// Restores a workspace to a snapshot, with its memory unless `disk_only` or unless it has none.
    async fn restore(
        &self,
        workspace: WorkspaceId,
        snapshot: SnapshotId,
        disk_only: bool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Restored, Failure>;

    /// Forks a workspace or one of its snapshots. The source keeps running.
    async fn fork(&self, request: &ForkRequest, progress: &Arc<dyn Progress>)
    -> Result<ForkOutcome, Failure>;

    /// Compares two points, file by file.
    async fn compare(&self, request: &CompareRequest) -> Result<Changes, Failure>;

    /// Compares the text of one file at two points; fails with `invalid_argument` if neither has it.
    async fn compare_file(&self, request: &CompareRequest, path: &str) -> Result<TextDiff, Failure>;

    /// Writes a workspace as an archive, of at most `max_bytes`. The workspace keeps running; on failure the caller has
    /// to discard what was written.
    async fn export(
        &self,
        workspace: WorkspaceId,
        labels: BTreeMap<String, String>,
        max_bytes: u64,
        out: Box<dyn Write + Send>,
        progress: &Arc<dyn Progress>,
    ) -> Result<Exported, Failure>;

    /// The way into a running workspace; fails with `workspace_not_running` if it does not run.
    async fn link(&self, id: WorkspaceId) -> Result<Link, Failure>;

    /// Waits until the machine of a workspace is paused because the host's disk is full, and returns that error. Never
    /// returns otherwise.
    async fn standstill(&self, id: WorkspaceId) -> Failure;

    /// Waits until the machine with this process id has ended. Waiting does not keep the host open.
    fn machine_end(&self, pid: u32) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Records that the machine of a workspace, or the machine with this process id, has ended without a request. Returns
    /// the end if it had not been recorded yet.
    async fn note_if_ended(&self, id: WorkspaceId, pid: Option<u32>)
    -> Result<Option<MachineEnded>, Failure>;

    /// Adds to a failure why the machine of a workspace may have ended.
    async fn explain_end(&self, id: WorkspaceId, failure: Failure) -> Failure;

    /// The last lines that a workspace's machine printed. Empty if it does not run.
    async fn logs(&self, id: WorkspaceId, lines: usize) -> Result<Logs, Failure>;

    /// Bytes that a workspace's own disk takes on the host, without the disks it is based on.
    async fn disk_used_bytes(&self, id: WorkspaceId) -> Result<u64, Failure>;

    /// Notes that a client arrived that is likely to create workspaces.
    fn expect_creates(&self);

    /// The state of the pool of ready machines.
    async fn pool_state(&self) -> Result<PoolState, Failure>;

    /// Ends every machine of the pool.
    async fn empty_pool(&self) -> Result<(), Failure>;

    /// Whether there is background work to do. Cheap.
    async fn needs_maintenance(&self) -> bool;

    /// Does the background work. Dropping the future undoes what is half done.
    async fn maintain(&self, progress: &Arc<dyn Progress>) -> Result<(), Failure>;
}
