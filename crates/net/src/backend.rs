//! The two back ends, as the control protocol serves them.

use std::os::fd::OwnedFd;

use agentiso_core::WorkspaceId;
use agentiso_policy::egress::Policy;
use tokio::sync::broadcast;

use crate::bridge::Bridge;
use crate::egress::ProxySetup;
use crate::log::LogEntry;
use crate::plan::Pool;
use crate::router::{MachineSpec, MachineStatus, Router, RouterError};

/// What the machines of an installation are attached to.
pub enum Backend {
    /// The router in user space.
    User(Router),
    /// The bridge in a network namespace.
    Bridge(Bridge),
}

impl From<Router> for Backend {
    fn from(router: Router) -> Self {
        Self::User(router)
    }
}

impl From<Bridge> for Backend {
    fn from(bridge: Bridge) -> Self {
        Self::Bridge(bridge)
    }
}

impl Backend {
    /// Its name, as the configuration has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Bridge(_) => "bridge",
        }
    }

    /// Whether changes wait for programs, and must not be made by a thread that has other work.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Bridge(_))
    }

    /// Attaches a machine. `card` is the router's end of a pair of datagram sockets; a back end with another kind of card
    /// closes it, and returns the file of the machine's TAP device.
    pub(crate) fn attach(&self, spec: MachineSpec, card: OwnedFd) -> Result<Option<OwnedFd>, RouterError> {
        match self {
            Self::User(router) => router.attach(spec, card).map(|()| None),
            Self::Bridge(bridge) => bridge.attach(spec).map(Some),
        }
    }

    pub(crate) fn detach(&self, workspace: WorkspaceId) -> Result<(), RouterError> {
        match self {
            Self::User(router) => router.detach(workspace),
            Self::Bridge(bridge) => bridge.detach(workspace),
        }
    }

    pub(crate) fn set_policies(&self, changes: Vec<(WorkspaceId, Policy)>) -> Result<(), RouterError> {
        match self {
            Self::User(router) => router.set_policies(changes),
            Self::Bridge(bridge) => bridge.set_policies(changes),
        }
    }

    pub(crate) fn set_proxy(&self, workspace: WorkspaceId, setup: &ProxySetup) -> Result<(), RouterError> {
        match self {
            Self::User(router) => router.set_proxy(workspace, setup),
            Self::Bridge(_) => Err(RouterError::NoProxy),
        }
    }

    pub(crate) fn instance(&self) -> &str {
        match self {
            Self::User(router) => router.instance(),
            Self::Bridge(bridge) => bridge.instance(),
        }
    }

    pub(crate) fn pool(&self) -> Pool {
        match self {
            Self::User(router) => router.pool(),
            Self::Bridge(bridge) => bridge.pool(),
        }
    }

    pub(crate) fn has_machines(&self) -> bool {
        match self {
            Self::User(router) => router.has_machines(),
            Self::Bridge(bridge) => !bridge.machines().is_empty(),
        }
    }

    pub(crate) fn machines(&self) -> Vec<MachineStatus> {
        match self {
            Self::User(router) => router.machines(),
            Self::Bridge(bridge) => bridge.machines(),
        }
    }

    pub(crate) fn log(&self, from: u64, limit: usize) -> Vec<LogEntry> {
        match self {
            Self::User(router) => router.log(from, limit),
            Self::Bridge(bridge) => bridge.log(from, limit),
        }
    }

    pub(crate) fn subscribe(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>) {
        match self {
            Self::User(router) => router.subscribe(from),
            Self::Bridge(bridge) => bridge.subscribe(from),
        }
    }
}
