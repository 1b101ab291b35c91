//! What outlives a session.

use std::sync::Mutex;

use agentiso_proto::RootDisk;

use crate::{
    error::{Outcome, unsupported},
    pool::Pool,
    root::NEW_ROOT,
    running::Running,
};

/// The agent: its workers, its commands and the machine it is the init of.
pub(crate) struct Agent {
    pub(crate) pool: Pool,
    pub(crate) running: Running,
    machine: Option<Machine>,
}

/// The machine the agent is the init of.
#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) root: Mutex<Root>,
}

/// The root file system.
#[derive(Default)]
pub(crate) struct Root {
    /// The disk that was mounted.
    pub(crate) disk: Option<RootDisk>,
    /// Writes to it are held back.
    pub(crate) frozen: bool,
}

impl Root {
    /// The disk the agent lives in.
    pub(crate) fn entered(&self) -> Option<&RootDisk> {
        self.disk.as_ref().filter(|disk| disk.enter)
    }

    /// Where the disk is mounted.
    pub(crate) fn mount_point(&self) -> Option<&'static str> {
        self.disk.as_ref().map(|disk| if disk.enter { "/" } else { NEW_ROOT })
    }
}

impl Agent {
    /// The init of a machine.
    pub(crate) fn of_machine() -> Self {
        Self { pool: Pool::new(), running: Running::new(), machine: Some(Machine::default()) }
    }

    /// An ordinary process, which leaves the machine it runs on alone.
    pub(crate) fn of_process() -> Self {
        Self { pool: Pool::new(), running: Running::new(), machine: None }
    }

    /// The machine, if it is the agent's to change.
    pub(crate) fn machine(&self) -> Outcome<&Machine> {
        self.machine.as_ref().ok_or_else(|| unsupported("the agent is not the init of this machine"))
    }
}
