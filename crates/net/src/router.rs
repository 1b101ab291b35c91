//! The router: all attached machines, their policies, and what they share.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use agentiso_core::{Code, Explain, WorkspaceId};
use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, watch};
use uuid::Uuid;

use crate::counters::Counters;
use crate::dns::{Nameservers, Resolver};
use crate::egress::{Proxy, ProxySetup, Roots, SetupError, Trust};
use crate::frame::{Card, MAX_MTU, MIN_MTU};
use crate::limits::Limits;
use crate::link::Link;
use crate::log::{Log, LogEntry};
use crate::machine::{Machine, Neighbours};
use crate::places::Places;
use crate::plan::Pool;
use crate::uplink::Uplink;
use agentiso_policy::egress::{Policy, Protocol, Rule, Verdict};

/// How often flows between workspaces are checked for being idle.
const SWEEP: Duration = Duration::from_secs(5);

/// What a router needs to know of the installation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The addresses of workspaces.
    pub pool: Pool,
    /// The resolvers that are asked.
    pub nameservers: Nameservers,
}

/// A machine as it is attached.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Whose machine it is. Its MAC address follows from this.
    pub workspace: WorkspaceId,
    /// Its address, from the pool.
    pub address: Ipv4Addr,
    /// The largest IP packet, 1280 to 65520.
    pub mtu: usize,
    /// Chosen anew whenever a machine is attached, so that the daemon can tell whether its QEMU has the other end.
    pub card: String,
    /// What the workspace may use of the router.
    #[serde(default)]
    pub limits: Limits,
    /// What it may reach.
    pub policy: Policy,
}

/// An attached machine, for the next daemon.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct MachineStatus {
    /// How it was attached, with its present policy.
    pub spec: MachineSpec,
    /// What happened on its card.
    pub counters: Counters,
}

/// Why a request to the router failed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RouterError {
    /// Another workspace has the address.
    #[error("the address {0} belongs to another workspace")]
    AddressTaken(Ipv4Addr),
    /// The address is not one that a workspace can have.
    #[error("{0} is not an address of the pool")]
    AddressOutsidePool(Ipv4Addr),
    /// The MTU is out of range.
    #[error("an MTU of {0} is not between {MIN_MTU} and {MAX_MTU}")]
    Mtu(usize),
    /// The workspace has no card here.
    #[error("workspace {0} is not attached to the router")]
    NotAttached(WorkspaceId),
    /// The authority or the secrets of a workspace cannot be used.
    #[error(transparent)]
    Proxy(#[from] SetupError),
    /// The descriptor is not the end of a card.
    #[error("the socket of the card cannot be used")]
    Socket(#[source] io::Error),
    /// The back end has no egress proxy.
    #[error("the network back end \"bridge\" has no egress proxy")]
    NoProxy,
    /// The bridge could not be changed.
    #[error(transparent)]
    Bridge(#[from] crate::bridge::BridgeError),
}

impl Explain for RouterError {
    fn code(&self) -> Code {
        match self {
            Self::AddressTaken(_) => Code::Internal,
            Self::AddressOutsidePool(_) | Self::Mtu(_) => Code::InvalidArgument,
            Self::NotAttached(_) => Code::WorkspaceNotRunning,
            Self::Proxy(error) => error.code(),
            Self::Socket(source) => Code::of_io(source),
            Self::NoProxy => Code::Unsupported,
            Self::Bridge(error) => error.code(),
        }
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Proxy(error) => return error.remedy(),
            Self::AddressTaken(_) => "detach the machine first".to_owned(),
            Self::AddressOutsidePool(_) => "choose an address of network.pool".to_owned(),
            Self::Mtu(_) => "choose another MTU".to_owned(),
            Self::NotAttached(_) => "start the workspace, or attach its machine".to_owned(),
            Self::Socket(_) => "attach the machine again".to_owned(),
            Self::NoProxy => "use egress = \"direct\", or set network.backend = \"user\"".to_owned(),
            Self::Bridge(error) => return error.remedy(),
        })
    }
}

/// What all machines of a router share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) uplink: Arc<dyn Uplink>,
    pub(crate) resolver: Resolver,
    pub(crate) log: Log,
    pub(crate) neighbours: Neighbours,
    pub(crate) trust: Trust,
    pub(crate) places: Arc<Places>,
    machines: RwLock<HashMap<Ipv4Addr, Arc<Machine>>>,
    /// In one map, so that several policies change at the same instant.
    policies: RwLock<HashMap<WorkspaceId, Arc<Policy>>>,
    changes: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn policy(&self, workspace: WorkspaceId) -> Option<Arc<Policy>> {
        read(&self.policies).get(&workspace).cloned()
    }

    pub(crate) fn machine_count(&self) -> usize {
        read(&self.machines).len()
    }

    pub(crate) fn machine_at(&self, address: Ipv4Addr) -> Option<Arc<Machine>> {
        read(&self.machines).get(&address).cloned()
    }

    pub(crate) fn neighbour_verdict(
        &self,
        from: Ipv4Addr,
        to: Ipv4Addr,
        port: u16,
        protocol: Protocol,
    ) -> Verdict {
        let machines = read(&self.machines);
        let policies = read(&self.policies);
        let policy = |address| machines.get(&address).and_then(|machine| policies.get(&machine.id));
        match (policy(from), policy(to)) {
            (Some(own), Some(other)) => own.neighbour_verdict(other, to, port, protocol),
            _ => Verdict::refuse(Rule::NoSuchWorkspace),
        }
    }

    /// Tells whenever a policy has changed.
    pub(crate) fn policy_changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Ends every flow of these workspaces that is no longer allowed.
    fn enforce(&self, changed: &[WorkspaceId]) {
        self.changes.send_replace(());
        let machines: Vec<_> = read(&self.machines).values().cloned().collect();
        machines.iter().filter(|machine| changed.contains(&machine.id)).for_each(|machine| machine.enforce());
        self.neighbours
            .enforce(|from, to, port, protocol| self.neighbour_verdict(from, to, port, protocol).allowed);
    }
}

/// A router with its machines. Dropping it detaches them.
pub struct Router {
    instance: String,
    shared: Arc<Shared>,
    specs: RwLock<HashMap<WorkspaceId, MachineSpec>>,
}

impl Router {
    /// A router without machines. Must be called in a tokio runtime.
    pub fn new(settings: Settings, uplink: Arc<dyn Uplink>) -> Self {
        Self::trusting(settings, uplink, Roots::Host)
    }

    /// A router whose egress proxy trusts servers that these roots certify.
    pub fn trusting(settings: Settings, uplink: Arc<dyn Uplink>, roots: Roots) -> Self {
        let shared = Arc::new(Shared {
            pool: settings.pool,
            uplink,
            resolver: Resolver::new(settings.nameservers),
            log: Log::new(),
            neighbours: Neighbours::default(),
            trust: Trust::new(roots),
            places: Arc::default(),
            machines: RwLock::default(),
            policies: RwLock::default(),
            changes: watch::Sender::new(()),
        });
        let weak = Arc::downgrade(&shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                let Some(shared) = weak.upgrade() else { return };
                let limits = Limits::default();
                shared.neighbours.expire(Instant::now(), |protocol| match protocol {
                    Protocol::Tcp => limits.tcp_idle(),
                    Protocol::Udp | Protocol::Icmp => limits.udp_idle(),
                });
            }
        });
        Self { instance: Uuid::new_v4().to_string(), shared, specs: RwLock::default() }
    }

    /// Attaches a machine with its policy, on one end of a pair of datagram sockets. A machine that is attached already
    /// gets a new card, and its flows end.
    pub fn attach(&self, spec: MachineSpec, socket: OwnedFd) -> Result<(), RouterError> {
        let mut specs = write(&self.specs);
        check(&self.shared.pool, &spec, specs.values())?;
        let link = Link::new(socket).map_err(RouterError::Socket)?;
        if let Some(before) = specs.remove(&spec.workspace)
            && let Some(machine) = write(&self.shared.machines).remove(&before.address)
        {
            machine.stop();
            self.shared.neighbours.end_all_of(before.address);
        }
        let card = Card {
            mac: spec.workspace.mac(),
            address: spec.address,
            gateway: self.shared.pool.gateway(),
            mtu: spec.mtu,
        };
        let machine = Machine::new(spec.workspace, card, spec.limits, link, Arc::clone(&self.shared));
        write(&self.shared.policies).insert(spec.workspace, Arc::new(spec.policy.clone()));
        write(&self.shared.machines).insert(spec.address, Arc::clone(&machine));
        machine.start();
        specs.insert(spec.workspace, spec);
        Ok(())
    }

    /// Detaches a machine: its flows end and its card is closed.
    pub fn detach(&self, workspace: WorkspaceId) -> Result<(), RouterError> {
        let spec = write(&self.specs).remove(&workspace).ok_or(RouterError::NotAttached(workspace))?;
        write(&self.shared.policies).remove(&workspace);
        if let Some(machine) = write(&self.shared.machines).remove(&spec.address) {
            machine.stop();
        }
        self.shared.enforce(&[workspace]);
        Ok(())
    }

    /// Sets the policies of several workspaces at the same instant, and ends the flows they no longer allow.
    pub fn set_policies(&self, changes: Vec<(WorkspaceId, Policy)>) -> Result<(), RouterError> {
        let mut specs = write(&self.specs);
        if let Some((stranger, _)) = changes.iter().find(|(workspace, _)| !specs.contains_key(workspace)) {
            return Err(RouterError::NotAttached(*stranger));
        }
        let changed: Vec<WorkspaceId> = changes.iter().map(|(workspace, _)| *workspace).collect();
        let mut policies = write(&self.shared.policies);
        for (workspace, policy) in changes {
            if let Some(spec) = specs.get_mut(&workspace) {
                spec.policy = policy.clone();
            }
            policies.insert(workspace, Arc::new(policy));
        }
        drop(policies);
        drop(specs);
        self.shared.enforce(&changed);
        Ok(())
    }

    /// Sets the authority and the secrets that the egress proxy uses for a workspace. They hold until it is detached.
    pub fn set_proxy(&self, workspace: WorkspaceId, setup: &ProxySetup) -> Result<(), RouterError> {
        let proxy = Proxy::open(workspace, setup)?;
        let address = read(&self.specs).get(&workspace).map(|spec| spec.address);
        let machine = address.and_then(|address| self.shared.machine_at(address));
        machine.ok_or(RouterError::NotAttached(workspace))?.set_proxy(proxy);
        self.shared.enforce(&[workspace]);
        Ok(())
    }

    /// Identifies this router: another one numbers its log from 0 again.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The addresses of workspaces.
    pub fn pool(&self) -> Pool {
        self.shared.pool
    }

    /// Whether a machine is attached.
    pub(crate) fn has_machines(&self) -> bool {
        !read(&self.specs).is_empty()
    }

    /// All attached machines.
    pub fn machines(&self) -> Vec<MachineStatus> {
        let machines = read(&self.shared.machines);
        let status = |spec: &MachineSpec| MachineStatus {
            spec: spec.clone(),
            counters: machines.get(&spec.address).map(|machine| machine.counters()).unwrap_or_default(),
        };
        let mut list: Vec<_> = read(&self.specs).values().map(status).collect();
        list.sort_by_key(|status| status.spec.address);
        list
    }

    /// The kept log entries from a number on, at most `limit`.
    pub fn log(&self, from: u64, limit: usize) -> Vec<LogEntry> {
        self.shared.log.read(from, limit)
    }

    /// The kept log entries from a number on, and those that follow.
    pub fn subscribe(&self, from: u64) -> (Vec<LogEntry>, broadcast::Receiver<LogEntry>) {
        self.shared.log.subscribe(from)
    }
}

/// Checks a machine before it is attached beside others.
pub(crate) fn check<'a>(
    pool: &Pool,
    spec: &MachineSpec,
    mut others: impl Iterator<Item = &'a MachineSpec>,
) -> Result<(), RouterError> {
    let reserved = [pool.gateway(), pool.range().network(), pool.range().broadcast()];
    if !pool.range().contains(&spec.address) || reserved.contains(&spec.address) {
        return Err(RouterError::AddressOutsidePool(spec.address));
    }
    if others.any(|other| other.address == spec.address && other.workspace != spec.workspace) {
        return Err(RouterError::AddressTaken(spec.address));
    }
    if !(MIN_MTU..=MAX_MTU).contains(&spec.mtu) {
        return Err(RouterError::Mtu(spec.mtu));
    }
    Ok(())
}

impl Drop for Router {
    fn drop(&mut self) {
        write(&self.shared.machines).drain().for_each(|(_, machine)| machine.stop());
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
