//! Connecting to the machine of a workspace.
//!
//! The daemon keeps connections open between operations; other processes reconnect by process id, start time and
//! sockets. A machine that has ended is recorded as stopped, with the reason. A machine that cannot be reached but may
//! still run is an error, never "stopped".

use std::sync::Arc;

use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_meta::Workspace;
use agentiso_vmm::Machine;
use agentiso_vmm::link::Guest;

use super::Workspaces;
use super::connections::Connections;
use super::lock::WorkspaceLock;
use super::machine::MachineState;

/// A locked, running workspace and its machine. Dropping it unlocks the workspace; the machine continues to run.
pub struct Attached {
    /// The workspace as it was when it was locked.
    pub workspace: Workspace,
    pub(crate) state: MachineState,
    machine: Option<Machine>,
    connections: Arc<Connections>,
    _lock: WorkspaceLock,
}

impl Workspaces {
    /// Connects to the machine of a running workspace.
    pub async fn attach(&self, id: WorkspaceId) -> Result<Attached, Failure> {
        let (workspace, lock) = self.lock(id).await?;
        self.attach_locked(workspace, lock).await
    }

    /// The link to the agent of a running workspace, for commands and files. Takes no lock if the connection is open.
    ///
    /// A machine that is paused because the host's disk was full is resumed.
    pub async fn guest(&self, id: WorkspaceId) -> Result<Guest, Failure> {
        let stands_still = self.connections.standstill(id).is_some_and(|standstill| standstill.is_there());
        if let Some(guest) = self.connections.guest(id)
            && !stands_still
        {
            return Ok(guest);
        }
        let attached = self.attach(id).await?;
        attached.machine().try_again().await?;
        Ok(attached.machine().guest().clone())
    }

    /// Waits until a connected machine is paused because the host's disk is full.
    pub async fn standstill(&self, id: WorkspaceId) -> Failure {
        match self.connections.standstill(id) {
            Some(standstill) => standstill.comes().await.into(),
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn attach_locked(
        &self,
        workspace: Workspace,
        lock: WorkspaceLock,
    ) -> Result<Attached, Failure> {
        match self.reach(&workspace).await? {
            Some((state, machine)) => {
                let connections = Arc::clone(&self.connections);
                Ok(Attached { workspace, state, machine: Some(machine), connections, _lock: lock })
            }
            None => Err(Failure::new(
                Code::WorkspaceNotRunning,
                format!("the workspace {:?} is not running", workspace.name.as_str()),
            )
            .with_remedy(format!("start it: agentiso start {}, or workspace_start", workspace.name))),
        }
    }

    /// The machine of a workspace; `None` if it does not run. A machine that has ended is recorded as stopped.
    pub(crate) async fn reach(
        &self,
        workspace: &Workspace,
    ) -> Result<Option<(MachineState, Machine)>, Failure> {
        let Some(state) = self.machine_of(workspace)? else { return Ok(None) };
        if let Some(machine) = self.connections.take(workspace.id, &state.record) {
            return Ok(Some((state, machine)));
        }
        let dir = state.dir.path(&self.installation.paths.workspaces_dir());
        let patience = self.installation.config.vm.boot_timeout();
        if let Some(machine) = Machine::adopt(&dir, &state.record, patience).await? {
            return Ok(Some((state, machine)));
        }
        self.note_end(workspace, &state)?;
        Ok(None)
    }

    /// Records that a workspace's machine has ended by itself. Does nothing if the machine runs, or if `pid` is given and
    /// is not its process. Returns the workspace if it was recorded now.
    pub async fn note_if_ended(
        &self,
        id: WorkspaceId,
        pid: Option<u32>,
    ) -> Result<Option<Workspace>, Failure> {
        let (workspace, _lock) = match self.lock(id).await {
            Err(failure) if failure.code() == Code::WorkspaceNotFound => return Ok(None),
            other => other?,
        };
        let Some(state) = self.machine_of(&workspace)? else { return Ok(None) };
        if pid.is_some_and(|pid| pid != state.record.pid) || state.record.is_alive() {
            return Ok(None);
        }
        self.note_end(&workspace, &state)?;
        Ok(Some(workspace))
    }

    /// Records that a machine has ended by itself.
    pub(crate) fn note_end(&self, workspace: &Workspace, state: &MachineState) -> Result<(), Failure> {
        let reason = self.reason_of_end(workspace);
        self.connections.forget(workspace.id);
        if workspace.network.address.is_some() {
            Arc::clone(&self.net).detach_soon(workspace.id);
        }
        // Remove the directory before the row that refers to it.
        let dir = self.installation.paths.workspaces_dir();
        state
            .dir
            .remove(&dir)
            .map_err(|error| self.installation.io("remove a machine's directory", error))?;
        self.own_stopped(workspace.disk);
        state.record.remove_group();
        self.meta.write(|tx| tx.set_stopped(workspace.id, Some(&reason)))?;
        Ok(())
    }
}

impl Attached {
    /// The machine.
    #[expect(
        clippy::missing_panics_doc,
        clippy::expect_used,
        reason = "it is taken only by methods that consume self"
    )]
    pub fn machine(&self) -> &Machine {
        self.machine.as_ref().expect("an attached workspace has its machine")
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(machine) = self.machine.take() {
            self.connections.leave(self.workspace.id, machine);
        }
    }
}
