//! A router with guests and servers, without a virtual machine: a guest is a second TCP/IP stack on the other end of the
//! card's socket, and a server is a socket on the host's loopback that the uplink maps a public address to.

pub mod frames;
mod guest;
mod nameserver;
mod streams;
mod uplink;
pub mod web;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agentiso_core::NetworkRules;
use agentiso_core::WorkspaceId;
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::{DEFAULT_POOL, Pool};
use agentiso_net::{Limits, LogEntry, LogEvent, MachineSpec, Router, Settings};
use agentiso_policy::egress::Policy;
use uuid::Uuid;

pub use guest::{Connected, Guest};
pub use nameserver::{Nameserver, a, cname};
pub use streams::Streams;
pub use uplink::MappedUplink;

pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub const PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
pub const OTHER_PUBLIC: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 35);

/// No test waits longer than this for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct Net {
    pub router: Router,
    pub uplink: Arc<MappedUplink>,
}

impl Net {
    pub fn new() -> Self {
        Self::with_nameservers(Vec::new())
    }

    pub fn with_nameservers(servers: Vec<SocketAddr>) -> Self {
        let uplink = Arc::new(MappedUplink::default());
        let router = Router::new(settings(servers), Arc::clone(&uplink) as _);
        Self::with_router_and_uplink(router, uplink)
    }

    /// A router that uses this uplink.
    pub fn with_router_and_uplink(router: Router, uplink: Arc<MappedUplink>) -> Self {
        Self { uplink, ..Self::with_router(router) }
    }

    /// A router with an uplink of its own.
    pub fn with_router(router: Router) -> Self {
        Self { router, uplink: Arc::default() }
    }

    /// Attaches a machine with the address 10.99.0.`last`.
    pub fn guest(&self, last: u8, policy: NetworkRules) -> Guest {
        self.guest_with(last, policy, Limits::default(), 1500)
    }

    pub fn guest_with(&self, last: u8, policy: NetworkRules, limits: Limits, mtu: usize) -> Guest {
        let mut spec = self.spec(last, policy);
        spec.limits = limits;
        spec.mtu = mtu;
        let (guest, card) = Guest::new(&spec);
        self.router.attach(spec, card).unwrap();
        guest
    }

    pub fn spec(&self, last: u8, policy: NetworkRules) -> MachineSpec {
        MachineSpec {
            workspace: workspace(last),
            address: Ipv4Addr::new(10, 99, 0, last),
            mtu: 1500,
            card: format!("card-{last}"),
            limits: Limits::default(),
            policy: Policy::check(&policy).unwrap(),
        }
    }

    /// The log entries of one kind, waiting until there is at least one.
    pub async fn logged(&self, event: LogEvent) -> LogEntry {
        let (past, mut live) = self.router.subscribe(0);
        let find = async {
            if let Some(entry) = past.into_iter().find(|entry| entry.event == event) {
                return entry;
            }
            loop {
                let entry = live.recv().await.unwrap();
                if entry.event == event {
                    return entry;
                }
            }
        };
        tokio::time::timeout(PATIENCE, find).await.unwrap_or_else(|_| panic!("{event:?} is not logged"))
    }
}

pub fn settings(servers: Vec<SocketAddr>) -> Settings {
    Settings { pool: Pool::parse(DEFAULT_POOL).unwrap(), nameservers: Nameservers::Fixed(servers) }
}

pub fn workspace(last: u8) -> WorkspaceId {
    WorkspaceId::from_uuid(Uuid::from_u128(u128::from(last) + 0x0190_0000_0000_7000_8000_0000_0000_0000))
}

pub fn online() -> NetworkRules {
    NetworkRules { allow_internet: true, ..NetworkRules::default() }
}

pub fn social() -> NetworkRules {
    NetworkRules { allow_inter_vm: true, ..NetworkRules::default() }
}

pub fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|&text| text.to_owned()).collect()
}
