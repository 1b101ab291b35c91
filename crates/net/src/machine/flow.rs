//! What the flows of every transport have in common: their key, their record, and how they are cut.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use tokio::sync::Notify;

use super::state::{Machine, Permit, lock};
use super::tcp::TcpFlow;
use super::udp::UdpFlow;
use crate::counters::Counting;
use crate::log::LogEvent;
use agentiso_policy::egress::{Protocol, Rule};

/// Identifies a flow of one machine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct FlowKey {
    pub(super) protocol: Protocol,
    /// The guest's port, or the identifier of its pings.
    pub(super) source: u16,
    pub(super) to: Ipv4Addr,
    pub(super) port: u16,
}

/// An open flow, or one that is being opened.
#[derive(Clone)]
pub(super) enum Flow {
    /// The outgoing connection is not there yet; the guest's segments are ignored.
    Connecting(Arc<Record>),
    /// It was refused and waits for an answer; the guest's segments are ignored.
    Held,
    Tcp(Arc<TcpFlow>),
    /// UDP, or pings.
    Datagrams(Arc<UdpFlow>),
}

impl Flow {
    /// The record of a flow that leaves the router. Connections to the gateway itself have none.
    pub(super) fn record(&self) -> Option<&Arc<Record>> {
        match self {
            Self::Held => None,
            Self::Connecting(record) => Some(record),
            Self::Tcp(flow) => flow.record.as_ref(),
            Self::Datagrams(flow) => Some(&flow.record),
        }
    }

    /// Ends the flow because the policy changed.
    pub(super) fn cut(&self) {
        if let Some(record) = self.record() {
            record.cut_off();
        }
    }
}

/// How the bytes of a flow are treated.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Handling {
    /// They are copied. Not through the proxy.
    Direct,
    /// The proxy does not know yet what they are.
    Unknown,
    /// The proxy copies them, for this host.
    Passed {
        /// The host; none if only the address is allowed.
        name: Option<String>,
    },
    /// The proxy looks at each request.
    Served {
        /// The host, if it is one for all requests.
        name: Option<String>,
    },
    /// They were requests, and are copied since one of them was allowed to become something else.
    Upgraded {
        /// The host of that request.
        host: String,
        /// The path of that request.
        path: String,
    },
}

impl Handling {
    /// The host, as far as the proxy knows it.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Direct | Self::Unknown => None,
            Self::Passed { name } | Self::Served { name } => name.as_deref(),
            Self::Upgraded { host, .. } => Some(host),
        }
    }
}

/// What the log says of a flow: one entry when it opens and one when it ends.
pub(crate) struct Record {
    machine: Weak<Machine>,
    pub(super) protocol: Protocol,
    /// The name that was resolved to the address last.
    resolved: Option<String>,
    pub(crate) address: Ipv4Addr,
    pub(crate) port: u16,
    handling: Mutex<Handling>,
    rule: String,
    started: Instant,
    sent: AtomicU64,
    received: AtomicU64,
    is_logged: AtomicBool,
    is_cut: AtomicBool,
    cut: Notify,
    _permit: Permit,
}

impl Record {
    pub(super) fn open(
        machine: &Arc<Machine>,
        permit: Permit,
        key: FlowKey,
        name: Option<String>,
        rule: &Rule,
    ) -> Arc<Self> {
        Counting::add(&machine.counting.flows_opened, 1);
        let record = Self {
            machine: Arc::downgrade(machine),
            protocol: key.protocol,
            resolved: name,
            handling: Mutex::new(Handling::Direct),
            address: key.to,
            port: key.port,
            rule: rule.to_string(),
            started: Instant::now(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            is_logged: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            cut: Notify::new(),
            _permit: permit,
        };
        record.log(LogEvent::Opened);
        Arc::new(record)
    }

    /// The name that the proxy found in the flow, or the one that was resolved to its address.
    pub(crate) fn name(&self) -> Option<String> {
        lock(&self.handling).name().map(str::to_owned).or_else(|| self.resolved.clone())
    }

    pub(super) fn handling(&self) -> Handling {
        lock(&self.handling).clone()
    }

    /// Notes how the proxy treats the flow.
    pub(crate) fn handled(&self, handling: Handling) {
        *lock(&self.handling) = handling;
    }

    /// Logs the end of the flow. Only the first call counts.
    pub(super) fn finish(&self, event: LogEvent) {
        if !self.is_logged.swap(true, Relaxed) {
            self.log(event);
        }
    }

    /// Ends the flow because the policy changed or the machine is detached.
    pub(super) fn cut_off(&self) {
        self.finish(LogEvent::Cut);
        self.is_cut.store(true, Relaxed);
        self.cut.notify_one();
    }

    /// Whether nothing more may pass.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut.load(Relaxed)
    }

    /// Returns once the policy has cut the flow.
    pub(super) async fn cut(&self) {
        while !self.is_cut() {
            self.cut.notified().await;
        }
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if let Some(machine) = self.machine.upgrade() {
            Counting::add(&machine.counting.bytes_sent, bytes as u64);
        }
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Relaxed);
        if let Some(machine) = self.machine.upgrade() {
            Counting::add(&machine.counting.bytes_received, bytes as u64);
        }
    }

    fn log(&self, event: LogEvent) {
        let Some(machine) = self.machine.upgrade() else { return };
        let mut entry = machine.entry(event, self.protocol, self.rule.clone());
        entry.name = self.name();
        entry.address = Some(self.address);
        entry.port = self.port;
        entry.bytes_sent = self.sent.load(Relaxed);
        entry.bytes_received = self.received.load(Relaxed);
        entry.duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        machine.append(entry);
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.finish(LogEvent::Cut);
    }
}
