//! Open connections to machines.
//!
//! A command connects to a machine, works on it and disconnects. The daemon keeps the connections to the monitor and the
//! agent here between operations, so that a call costs one round trip. An operation that changes a workspace takes its
//! machine from here and puts it, or its successor, back; meanwhile other calls can still use the link to the agent.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentiso_core::WorkspaceId;
use agentiso_vmm::link::Guest;
use agentiso_vmm::{Machine, MachineRecord, Standstill};

/// The open connections of a daemon; none are kept in other processes.
pub(crate) struct Connections {
    machines: Option<Mutex<HashMap<WorkspaceId, Place>>>,
}

struct Place {
    pid: u32,
    guest: Guest,
    standstill: Standstill,
    /// Absent while an operation has it.
    machine: Option<Machine>,
}

impl Connections {
    /// Disconnects from every machine after each operation.
    pub fn none() -> Self {
        Self { machines: None }
    }

    /// Keeps every connection.
    pub fn all() -> Self {
        Self { machines: Some(Mutex::default()) }
    }

    /// Takes the machine of a workspace for an operation.
    pub fn take(&self, id: WorkspaceId, record: &MachineRecord) -> Option<Machine> {
        let mut machines = self.machines()?;
        let place = machines.get_mut(&id)?;
        let machine = place.machine.take()?;
        if place.pid == record.pid && !place.guest.is_closed() {
            return Some(machine);
        }
        machines.remove(&id);
        machine.release();
        None
    }

    /// Puts a machine back after an operation: keeps the connection, or disconnects.
    pub fn leave(&self, id: WorkspaceId, machine: Machine) {
        match self.machines() {
            None => machine.release(),
            Some(mut machines) => {
                let place = Place {
                    pid: machine.pid(),
                    guest: machine.guest().clone(),
                    standstill: machine.standstill(),
                    machine: Some(machine),
                };
                if let Some(Place { machine: Some(former), .. }) = machines.insert(id, place) {
                    former.release();
                }
            }
        }
    }

    /// The link to the agent of a workspace's machine.
    pub fn guest(&self, id: WorkspaceId) -> Option<Guest> {
        let machines = self.machines()?;
        machines.get(&id).map(|place| place.guest.clone()).filter(|guest| !guest.is_closed())
    }

    /// Tells whether a workspace's machine is paused because the host's disk is full.
    pub fn standstill(&self, id: WorkspaceId) -> Option<Standstill> {
        Some(self.machines()?.get(&id)?.standstill.clone())
    }

    /// Drops the connection to a machine that has ended, unless it has been replaced.
    pub fn forget_ended(&self, id: WorkspaceId, pid: u32) {
        if self.machines().is_some_and(|machines| machines.get(&id).is_some_and(|place| place.pid == pid)) {
            self.forget(id);
        }
    }

    /// Drops the connection to a machine that no longer belongs to the workspace.
    pub fn forget(&self, id: WorkspaceId) {
        if let Some(Place { machine: Some(machine), .. }) =
            self.machines().and_then(|mut machines| machines.remove(&id))
        {
            machine.release();
        }
    }

    fn machines(&self) -> Option<MutexGuard<'_, HashMap<WorkspaceId, Place>>> {
        self.machines.as_ref().map(|machines| machines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Connections {
    /// Disconnects; the machines continue to run.
    fn drop(&mut self) {
        let machines = self
            .machines
            .take()
            .map(|machines| machines.into_inner().unwrap_or_else(PoisonError::into_inner));
        for place in machines.into_iter().flat_map(HashMap::into_values) {
            if let Some(machine) = place.machine {
                machine.release();
            }
        }
    }
}
