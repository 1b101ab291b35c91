//! Agent state that outlives a session: worker threads, running commands, jobs, variables, and the machine.

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

/// The agent: its workers and commands and, if it is PID 1, the machine it manages.
pub(crate) struct Agent {
    pub(crate) workers: Workers,
    pub(crate) running: Running,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) environment: Environment,
    machine: Option<Machine>,
}

/// State that exists only when the agent is PID 1.
pub(crate) struct Machine {
    /// Lock order: `hold` before `root`.
    pub(crate) hold: Mutex<Hold>,
    pub(crate) root: Mutex<Root>,
    /// `None` if the kernel has no cgroup v2.
    pub(crate) groups: Option<Arc<Groups>>,
}

#[derive(Default)]
pub(crate) struct Root {
    /// Set once a disk has been mounted.
    pub(crate) disk: Option<RootDisk>,
    /// Whether writes are blocked by FIFREEZE.
    pub(crate) frozen: bool,
    /// The boot id that processes in the root read.
    pub(crate) boot_id: Option<BootId>,
}

impl Root {
    /// The disk that the agent has changed root into.
    pub(crate) fn entered(&self) -> Option<&RootDisk> {
        self.disk.as_ref().filter(|disk| disk.enter)
    }

    /// The path at which the disk is mounted.
    pub(crate) fn mount_point(&self) -> Option<&'static str> {
        self.disk.as_ref().map(|disk| if disk.enter { "/" } else { NEW_ROOT })
    }
}

impl Agent {
    /// Creates the agent of a machine, as PID 1.
    pub(crate) fn of_machine() -> Self {
        let machine = Machine { hold: Mutex::default(), root: Mutex::default(), groups: Groups::mount() };
        Self::new(Some(machine))
    }

    /// Creates an agent that runs as an ordinary process and does not change the machine it runs on.
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

    /// The cgroups for commands, or `None` if the agent is not PID 1 or the kernel has none.
    pub(crate) fn groups(&self) -> Option<&Arc<Groups>> {
        self.machine.as_ref()?.groups.as_ref()
    }

    /// The machine. Fails unless the agent is PID 1.
    pub(crate) fn machine(&self) -> Outcome<&Machine> {
        self.machine.as_ref().ok_or_else(|| unsupported("the agent is not PID 1 of this machine"))
    }
}
