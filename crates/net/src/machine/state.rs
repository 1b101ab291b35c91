//! What the router knows of one machine.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use agentiso_core::{Egress, WorkspaceId};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::flow::{Flow, FlowKey, Handling, Record};
use crate::counters::{Counters, Counting};
use crate::dns::{Pins, Resolver};
use crate::egress::{Proxy, Trust, needs_interception};
use crate::frame::{Card, Dropped, Framer};
use crate::limits::{Bucket, LOG_BURST, LOG_RATE, Limits, MAX_LOOKUPS, MAX_WAITING};
use crate::link::Link;
use crate::log::{LogEntry, LogEvent};
use crate::places::Places;
use crate::router::Shared;
use agentiso_policy::egress::{self as policy, Destination, Policy, Protocol, Rule, Verdict};

/// The most connections of a machine whose requests the proxy looks at: each may have some MiB on the way.
const MAX_SERVED: usize = 256;

/// An attached machine.
pub(crate) struct Machine {
    pub(crate) id: WorkspaceId,
    pub(crate) card: Card,
    pub(crate) limits: Limits,
    pub(super) framer: Framer,
    pub(super) link: Arc<Link>,
    pub(super) shared: Arc<Shared>,
    pub(super) counting: Counting,
    pub(super) flows: Mutex<HashMap<FlowKey, Flow>>,
    /// Flows of every kind that count against the limit on connections.
    pub(super) open: AtomicUsize,
    pub(super) buckets: Mutex<Buckets>,
    pins: Mutex<Pins>,
    proxy: Mutex<Arc<Proxy>>,
    /// Limits the queries that wait for an answer to a request for approval.
    pub(super) waiting: Semaphore,
    pub(super) lookups: Semaphore,
    pub(crate) served: Arc<Semaphore>,
    tasks: Mutex<JoinSet<()>>,
}

pub(super) struct Buckets {
    pub(super) packets: Bucket,
    pub(super) bytes: Bucket,
    pub(super) queries: Bucket,
    log: Bucket,
}

impl Machine {
    pub(crate) fn new(
        id: WorkspaceId,
        card: Card,
        limits: Limits,
        link: Link,
        shared: Arc<Shared>,
    ) -> Arc<Self> {
        let now = Instant::now();
        let buckets = Buckets {
            packets: Bucket::new(limits.packets_per_second, limits.packets_per_second / 10 + 64, now),
            // At least one frame of the largest size must pass.
            bytes: Bucket::new(limits.bytes_per_second, limits.bytes_per_second / 20 + 65_536, now),
            queries: Bucket::new(limits.queries_per_second, limits.queries_per_second, now),
            log: Bucket::new(LOG_RATE, LOG_BURST, now),
        };
        Arc::new(Self {
            id,
            card,
            limits,
            framer: Framer::new(card),
            link: Arc::new(link),
            shared,
            counting: Counting::default(),
            flows: Mutex::default(),
            open: AtomicUsize::new(0),
            buckets: Mutex::new(buckets),
            pins: Mutex::default(),
            proxy: Mutex::default(),
            waiting: Semaphore::new(MAX_WAITING),
            lookups: Semaphore::new(MAX_LOOKUPS),
            served: Arc::new(Semaphore::new(MAX_SERVED)),
            tasks: Mutex::new(JoinSet::new()),
        })
    }

    /// Starts receiving frames.
    pub(crate) fn start(self: &Arc<Self>) {
        let link = Arc::clone(&self.link);
        self.spawn(async move { link.wake_waiting().await });
        let machine = Arc::clone(self);
        self.spawn(async move { machine.receive().await });
    }

    /// Ends every task and flow of the machine.
    pub(crate) fn stop(&self) {
        lock(&self.flows).drain().for_each(|(_, flow)| flow.cut());
        lock(&self.tasks).abort_all();
        self.link.close();
    }

    /// Runs a task until it ends or the machine is detached.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }

    pub(crate) fn counters(&self) -> Counters {
        self.counting.read(self.open.load(Relaxed) as u64)
    }

    pub(crate) fn pins(&self) -> MutexGuard<'_, Pins> {
        lock(&self.pins)
    }

    pub(crate) fn policy(&self) -> Option<Arc<Policy>> {
        self.shared.policy(self.id)
    }

    /// The authority and the secrets of the workspace.
    pub(crate) fn proxy(&self) -> Arc<Proxy> {
        Arc::clone(&lock(&self.proxy))
    }

    pub(crate) fn set_proxy(&self, proxy: Proxy) {
        *lock(&self.proxy) = Arc::new(proxy);
    }

    pub(crate) fn trust(&self) -> &Trust {
        &self.shared.trust
    }

    pub(crate) fn resolver(&self) -> &Resolver {
        &self.shared.resolver
    }

    /// Whether an address is the host's. If the host cannot tell, it stays closed.
    pub(crate) fn is_own_address(&self, address: Ipv4Addr) -> bool {
        self.shared.uplink.is_own_address(address).unwrap_or(true)
    }

    pub(crate) fn is_in_pool(&self, address: Ipv4Addr) -> bool {
        self.shared.pool.range().contains(&address)
    }

    /// Sends a frame that may be lost.
    pub(crate) fn send(&self, frame: Option<Vec<u8>>) {
        let Some(frame) = frame else { return };
        if self.link.send_or_queue(frame) {
            Counting::add(&self.counting.frames_to_guest, 1);
        } else {
            self.counting.dropped(Dropped::Backlog);
        }
    }

    /// Decides about a flow to an address outside the pool, and returns the name it was resolved by.
    pub(super) fn decide(&self, to: Ipv4Addr, port: u16, protocol: Protocol) -> (Verdict, Option<String>) {
        let names = self.pins().names(to, Instant::now());
        let verdict = self.decide_named(to, port, protocol, &names);
        (verdict, names.into_iter().next())
    }

    pub(crate) fn decide_named(
        &self,
        to: Ipv4Addr,
        port: u16,
        protocol: Protocol,
        names: &[String],
    ) -> Verdict {
        let Some(policy) = self.policy() else {
            return Verdict::refuse(Rule::InternetOff);
        };
        let destination = Destination { address: to.into(), is_host: self.is_own_address(to), names };
        policy.verdict(&policy::Flow { destination, port, protocol })
    }

    /// Whether a machine may send or receive this much now; what does not fit is dropped.
    pub(super) fn take_bandwidth(&self, bytes: usize) -> bool {
        let taken = lock(&self.buckets).bytes.take(bytes as u64, Instant::now());
        if !taken {
            self.counting.dropped(Dropped::Bandwidth);
        }
        taken
    }

    /// Takes one query from the limit on queries.
    pub(crate) fn take_query(&self) -> bool {
        let taken = lock(&self.buckets).queries.take(1, Instant::now());
        if !taken {
            self.counting.dropped(Dropped::QueryRate);
        }
        taken
    }

    pub(crate) fn count_query(&self) {
        Counting::add(&self.counting.queries, 1);
    }

    /// Logs a refused flow or name.
    pub(crate) fn log_refused(
        &self,
        protocol: Protocol,
        name: Option<String>,
        to: Option<(Ipv4Addr, u16)>,
        rule: &Rule,
    ) {
        Counting::add(&self.counting.refused, 1);
        let mut entry = self.entry(LogEvent::Refused, protocol, rule.to_string());
        entry.name = name;
        entry.address = to.map(|(address, _)| address);
        entry.port = to.map_or(53, |(_, port)| port);
        self.append(entry);
    }

    /// Logs a flow through the proxy that is allowed but cannot be used.
    pub(crate) fn log_failed(&self, name: &str, to: (Ipv4Addr, u16), what: &str) {
        self.append(self.entry_to(
            LogEvent::Failed,
            Some(name.to_owned()),
            to,
            format!("egress proxy: {what}"),
        ));
    }

    /// Logs a refusal that the operator should look at.
    pub(crate) fn log_alert(&self, name: &str, to: (Ipv4Addr, u16), rule: &Rule) {
        Counting::add(&self.counting.refused, 1);
        self.append(self.entry_to(LogEvent::Alert, Some(name.to_owned()), to, rule.to_string()));
    }

    fn entry_to(&self, event: LogEvent, name: Option<String>, to: (Ipv4Addr, u16), rule: String) -> LogEntry {
        let entry = self.entry(event, Protocol::Tcp, rule);
        LogEntry { name, address: Some(to.0), port: to.1, ..entry }
    }

    pub(super) fn entry(&self, event: LogEvent, protocol: Protocol, rule: String) -> LogEntry {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        LogEntry {
            sequence: 0,
            at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            workspace: self.id,
            event,
            protocol,
            name: None,
            address: None,
            port: 0,
            rule,
            bytes_sent: 0,
            bytes_received: 0,
            duration_ms: 0,
        }
    }

    pub(super) fn append(&self, entry: LogEntry) {
        if lock(&self.buckets).log.take(1, Instant::now()) {
            self.shared.log.append(entry);
        } else {
            Counting::add(&self.counting.log_suppressed, 1);
        }
    }

    /// Counts a flow against the limit on connections, until the returned permit is dropped.
    pub(super) fn permit(self: &Arc<Self>) -> Option<Permit> {
        let open = self.open.fetch_add(1, Relaxed);
        let has_room = self.shared.places.take(open, self.shared.machine_count());
        let permit = Permit { machine: Arc::downgrade(self), places: Arc::clone(&self.shared.places) };
        (open < self.limits.connections && has_room).then_some(permit)
    }

    /// Ends the flows that the policy no longer allows.
    pub(crate) fn enforce(&self) {
        let refused: Vec<(FlowKey, Flow)> = {
            let flows = lock(&self.flows);
            let is_refused = |(_, flow): &(&FlowKey, &Flow)| match (flow, flow.record()) {
                // How its bytes are treated is decided when it is connected.
                (Flow::Connecting(record), _) => !self.is_allowed_to_connect(record),
                (_, Some(record)) => !self.is_still_allowed(record),
                (_, None) => false,
            };
            flows.iter().filter(is_refused).map(|(key, flow)| (*key, flow.clone())).collect()
        };
        for (key, flow) in refused {
            flow.cut();
            lock(&self.flows).remove(&key);
        }
    }

    /// Whether a flow that is not connected yet is allowed by the present policy.
    pub(super) fn is_allowed_to_connect(&self, record: &Record) -> bool {
        self.decide(record.address, record.port, record.protocol).0.allowed
    }

    /// Whether a flow that has just been connected is allowed by the present policy.
    pub(super) fn is_allowed_to_begin(&self, record: &Record) -> bool {
        let (verdict, _) = self.decide(record.address, record.port, record.protocol);
        self.is_handled_rightly(record, &verdict)
    }

    /// Whether an open flow is allowed by the present policy. Names that lead to its address may be forgotten by now, but
    /// its own is not.
    fn is_still_allowed(&self, record: &Record) -> bool {
        let names: Vec<String> = record.name().into_iter().collect();
        let verdict = self.decide_named(record.address, record.port, record.protocol, &names);
        self.is_handled_rightly(record, &verdict)
    }

    /// Whether a flow is allowed in the way in which its bytes are treated.
    fn is_handled_rightly(&self, record: &Record, verdict: &Verdict) -> bool {
        let Some(policy) = self.policy().filter(|_| verdict.allowed) else { return false };
        if policy.egress() == Egress::Direct || record.protocol != Protocol::Tcp {
            return true;
        }
        match record.handling() {
            Handling::Direct | Handling::Passed { name: None } => matches!(verdict.rule, Rule::AllowCidr(_)),
            Handling::Passed { name: Some(name) } => !needs_interception(Some(&policy), &self.proxy(), &name),
            // Decided later, by what holds then.
            Handling::Unknown | Handling::Served { .. } => true,
            Handling::Upgraded { host, path } => policy.request_verdict(&host, "GET", &path).allowed,
        }
    }

    /// Forgets a flow that has ended, unless another one has taken its place.
    pub(super) fn forget(&self, key: FlowKey, record: Option<&Arc<Record>>) {
        let mut flows = lock(&self.flows);
        let is_same = flows.get(&key).is_some_and(|flow| match (flow.record(), record) {
            (Some(known), Some(ended)) => Arc::ptr_eq(known, ended),
            (known, ended) => known.is_none() && ended.is_none(),
        });
        if is_same {
            flows.remove(&key);
        }
    }
}

/// A place among the open flows of a machine, and of all machines.
pub(super) struct Permit {
    machine: Weak<Machine>,
    places: Arc<Places>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.places.give_back();
        if let Some(machine) = self.machine.upgrade() {
            machine.open.fetch_sub(1, Relaxed);
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
