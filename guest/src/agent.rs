//! What outlives a session.

use std::sync::{Arc, Mutex};

use agentiso_proto::RootDisk;

use crate::{
    boot_id::BootId,
    environment::Environment,
    error::{Outcome, unsupported},
    groups::Groups,
    hold::Hold,
    jobs::Jobs,
    root::NEW_ROOT,
    running::Running,
    workers::Workers,
};

/// The agent: its workers, its commands and the machine it is the init of.
pub(crate) struct Agent {
    pub(crate) workers: Workers,
    pub(crate) running: Running,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) environment: Environment,
    machine: Option<Machine>,
}

/// The machine the agent is the init of.
pub(crate) struct Machine {
    /// Locked before the root, if both are.
    pub(crate) hold: Mutex<Hold>,
    pub(crate) root: Mutex<Root>,
    /// None if the kernel lacks them.
    pub(crate) groups: Option<Arc<Groups>>,
}

/// The root file system.
#[derive(Default)]
pub(crate) struct Root {
    /// The disk that was mounted.
    pub(crate) disk: Option<RootDisk>,
    /// Writes to it are held back.
    pub(crate) frozen: bool,
    /// The boot id as the root's processes see it.
    pub(crate) boot_id: Option<BootId>,
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
        let machine = Machine { hold: Mutex::default(), root: Mutex::default(), groups: Groups::mount() };
        Self::new(Some(machine))
    }

    /// An ordinary process, which leaves the machine it runs on alone.
    pub(crate) fn of_process() -> Self {
        Self::new(None)
    }

    fn new(machine: Option<Machine>) -> Self {
        Self {
            workers: Workers::new(),
            running: Running::new(),
            jobs: Arc::default(),
            environment: Environment::default(),
            machine,
        }
    }

    /// The control groups, if there are any to put commands into.
    pub(crate) fn groups(&self) -> Option<&Arc<Groups>> {
        self.machine.as_ref()?.groups.as_ref()
    }

    /// The machine, if it is the agent's to change.
    pub(crate) fn machine(&self) -> Outcome<&Machine> {
        self.machine.as_ref().ok_or_else(|| unsupported("the agent is not the init of this machine"))
    }
}
