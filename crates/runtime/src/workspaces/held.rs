//! Machines a process stays with.
//!
//! A command comes back to a machine, works on it and leaves it. A daemon stays: its connections to the monitor and the
//! agent are kept here between two changes, so that a call costs one round trip and nothing else. Whoever changes a
//! workspace takes its machine from here and puts it, or its successor, back; the way to its agent stays open to
//! everyone meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentiso_core::WorkspaceId;
use agentiso_vmm::link::Guest;
use agentiso_vmm::{Machine, MachineRecord, Standstill};

/// The machines that are kept, if any are.
pub(crate) struct Held {
    machines: Option<Mutex<HashMap<WorkspaceId, Place>>>,
}

struct Place {
    pid: u32,
    guest: Guest,
    standstill: Standstill,
    /// Absent while somebody changes the workspace.
    machine: Option<Machine>,
}

impl Held {
    /// Lets every machine go at once.
    pub fn none() -> Self {
        Self { machines: None }
    }

    /// Keeps every machine.
    pub fn all() -> Self {
        Self { machines: Some(Mutex::default()) }
    }

    /// Takes the machine of a workspace, to change it.
    pub fn take(&self, id: WorkspaceId, record: &MachineRecord) -> Option<Machine> {
        let mut machines = self.machines()?;
        let place = machines.get_mut(&id)?;
        let machine = place.machine.take()?;
        if place.pid == record.pid && !place.guest.is_closed() {
            return Some(machine);
        }
        machines.remove(&id);
        part(machine);
        None
    }

    /// Leaves a machine to itself, or keeps it for the next one.
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

    /// The way to the agent of a workspace's machine.
    pub fn guest(&self, id: WorkspaceId) -> Option<Guest> {
        let machines = self.machines()?;
        machines.get(&id).map(|place| place.guest.clone()).filter(|guest| !guest.is_closed())
    }

    /// What tells whether a workspace's machine stands still because the host's disk is full.
    pub fn standstill(&self, id: WorkspaceId) -> Option<Standstill> {
        Some(self.machines()?.get(&id)?.standstill.clone())
    }

    /// Forgets a machine that was seen to have ended, unless it has been replaced.
    pub fn forget_ended(&self, id: WorkspaceId, pid: u32) {
        if self.machines().is_some_and(|machines| machines.get(&id).is_some_and(|place| place.pid == pid)) {
            self.forget(id);
        }
    }

    /// Forgets a machine that is not the workspace's any more.
    pub fn forget(&self, id: WorkspaceId) {
        if let Some(Place { machine: Some(machine), .. }) =
            self.machines().and_then(|mut machines| machines.remove(&id))
        {
            part(machine);
        }
    }

    fn machines(&self) -> Option<MutexGuard<'_, HashMap<WorkspaceId, Place>>> {
        self.machines.as_ref().map(|machines| machines.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Held {
    /// Whoever stayed goes, and the machines go on.
    fn drop(&mut self) {
        let machines = self
            .machines
            .take()
            .map(|machines| machines.into_inner().unwrap_or_else(PoisonError::into_inner));
        for place in machines.into_iter().flat_map(HashMap::into_values) {
            if let Some(machine) = place.machine {
                part(machine);
            }
        }
    }
}

/// Leaves a machine. How one has ended is still to be read in its group.
fn part(machine: Machine) {
    machine.release();
}
