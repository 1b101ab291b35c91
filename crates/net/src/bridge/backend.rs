//! The back end as the router process uses it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use agentiso_core::WorkspaceId;
use agentiso_policy::egress::Policy;
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::error::BridgeError;
use super::links::Links;
use super::namespace::Namespace;
use super::pasta::Uplink;
use super::state::Shared;
use super::{events, resolver, watch};
use crate::dns::Resolver;
use crate::log::LogEntry;
use crate::plan::Pool;
use crate::router::{MachineSpec, MachineStatus, RouterError, Settings};

/// A namespace with a bridge, its filter, its resolver and its uplink. All end when it is dropped.
pub struct Bridge {
    instance: String,
    // Before the namespace: it ends first.
    uplink: Uplink,
    _tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

impl Bridge {
    /// Sets everything up, without workspaces. Must be called in a tokio runtime, in the host's network namespace; it
    /// waits for the kernel and for programs.
    pub fn new(settings: Settings) -> Result<Self, BridgeError> {
        let namespace = Namespace::new().map_err(BridgeError::at("make a network namespace"))?;
        let shared = Arc::new(Shared::new(settings.pool, namespace, Resolver::new(settings.nameservers)));
        shared.links(prepare).map_err(BridgeError::at("prepare the network namespace"))?;
        shared.build()?;
        let addresses = Links::open().and_then(|mut links| links.addresses());
        addresses
            .and_then(|addresses| shared.set_host(addresses))
            .map_err(BridgeError::at("read the host's addresses"))?;
        let mut tasks = JoinSet::new();
        events::start(&shared, &mut tasks).map_err(BridgeError::at("read the kernel's reports"))?;
        resolver::start(&shared, &mut tasks).map_err(BridgeError::at("start the resolver"))?;
        let uplink = Uplink::start(&shared).map_err(BridgeError::at("start the uplink"))?;
        watch::start(&shared, &mut tasks);
        Ok(Self { instance: Uuid::new_v4().to_string(), uplink, _tasks: tasks, shared })
    }

    /// Attaches a machine with its policy, and returns the file of its TAP device, for QEMU. A machine that is attached
    /// already gets a new device, and its flows end.
    pub fn attach(&self, spec: MachineSpec) -> Result<OwnedFd, RouterError> {
        self.shared.attach(spec)
    }

    /// Detaches a machine: its flows end and its device is removed.
    pub fn detach(&self, workspace: WorkspaceId) -> Result<(), RouterError> {
        self.shared.detach(workspace)
    }

    /// Sets the policies of several workspaces in one transaction, and ends the flows they no longer allow.
    pub fn set_policies(&self, changes: Vec<(WorkspaceId, Policy)>) -> Result<(), RouterError> {
        self.shared.set_policies(changes)
    }

    /// Identifies this run: another one numbers its log from 0 again.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// The addresses of workspaces.
    pub fn pool(&self) -> Pool {
        self.shared.pool
    }

    /// All attached machines.
    pub fn machines(&self) -> Vec<MachineStatus> {
        let mut list: Vec<_> = self
            .shared
            .attached()
            .into_iter()
            .map(|(spec, client)| MachineStatus { spec, counters: client.counting.read(0) })
            .collect();
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

    /// The network namespace, for other processes while this one runs.
    pub fn namespace(&self) -> PathBuf {
        self.shared.namespace.path()
    }

    /// The process that connects the namespace with the host's network, if it runs.
    pub fn uplink_process(&self) -> Option<u32> {
        self.uplink.pid()
    }
}

/// Settings of the namespace: packets are forwarded between its links alone, and IPv6 is off.
fn prepare(links: &mut Links) -> io::Result<()> {
    for (name, value) in [
        ("ipv6/conf/all/disable_ipv6", "1"),
        ("ipv6/conf/default/disable_ipv6", "1"),
        ("ipv4/ip_forward", "1"),
        ("ipv4/conf/all/send_redirects", "0"),
        ("ipv4/conf/default/send_redirects", "0"),
        ("ipv4/conf/all/accept_redirects", "0"),
        ("ipv4/conf/default/accept_redirects", "0"),
        ("ipv4/conf/all/accept_source_route", "0"),
        ("netfilter/nf_conntrack_acct", "1"),
    ] {
        set(name, value)?;
    }
    links.set_up("lo")?;
    links.add_rules()
}

/// The thread of the namespace sees the namespace's own settings. One that the kernel does not have needs no value.
#[expect(clippy::disallowed_methods, reason = "procfs is memory: writing it waits for no device")]
fn set(name: &str, value: &str) -> io::Result<()> {
    match std::fs::write(format!("/proc/sys/net/{name}"), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
