//! One workspace on the bridge: its policy, the names it resolved, and what it did.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentiso_core::{Ask, WorkspaceId};
use agentiso_policy::egress::{Destination, Flow, Policy, Protocol, Rule, Verdict};
use tokio::sync::{Semaphore, watch};

use super::rules::Pin;
use super::state::Shared;
use crate::counters::Counting;
use crate::dns::{Asker, Pins, Resolver};
use crate::host;
use crate::limits::{Bucket, LOG_BURST, LOG_RATE, MAX_LOOKUPS, MAX_WAITING};
use crate::log::{LogEntry, LogEvent};
use crate::router::MachineSpec;

/// An attached workspace.
pub(super) struct Client {
    pub(super) id: WorkspaceId,
    mtu: usize,
    pub(super) counting: Counting,
    policy: watch::Sender<Arc<Policy>>,
    ask_limit: Duration,
    pins: Mutex<Pins>,
    queries: Mutex<Bucket>,
    log: Mutex<Bucket>,
    lookups: Semaphore,
    waiting: Semaphore,
    resolver: Arc<Resolver>,
    shared: Weak<Shared>,
}

impl Client {
    pub(super) fn new(spec: &MachineSpec, resolver: Arc<Resolver>, shared: Weak<Shared>) -> Arc<Self> {
        let rate = spec.limits.queries_per_second;
        Arc::new(Self {
            id: spec.workspace,
            mtu: spec.mtu,
            counting: Counting::default(),
            policy: watch::Sender::new(Arc::new(spec.policy.clone())),
            ask_limit: spec.limits.ask_limit(),
            pins: Mutex::default(),
            queries: Mutex::new(Bucket::new(rate, rate, Instant::now())),
            log: Mutex::new(Bucket::new(LOG_RATE, LOG_BURST, Instant::now())),
            lookups: Semaphore::new(MAX_LOOKUPS),
            waiting: Semaphore::new(MAX_WAITING),
            resolver,
            shared,
        })
    }

    pub(super) fn current_policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.borrow())
    }

    pub(super) fn set_policy(&self, policy: &Policy) {
        self.policy.send_replace(Arc::new(policy.clone()));
    }

    /// What the names resolved so far mean for a policy: addresses that are open, and those whose names are denied.
    pub(super) fn pinned(&self, policy: &Policy) -> (Vec<Pin>, Vec<Ipv4Addr>) {
        let (mut open, mut denied) = (Vec::new(), Vec::new());
        for (address, names, left) in lock(&self.pins).list(Instant::now()) {
            let pinned = policy.pinned(&names);
            if pinned.denied {
                denied.push(address);
            } else if pinned.listed {
                open.push(pin(address, left, pinned.listed, pinned.exact));
            }
        }
        (open, denied)
    }

    /// What the policy says about a flow to an address outside the pool, and the name it was resolved by.
    pub(super) fn decide(&self, to: Ipv4Addr, port: u16, protocol: Protocol) -> (Verdict, Option<String>) {
        let names = lock(&self.pins).names(to, Instant::now());
        let is_host = host::is_own_address(to).unwrap_or(true);
        let destination = Destination { address: to.into(), is_host, names: &names };
        let verdict = self.current_policy().verdict(&Flow { destination, port, protocol });
        (verdict, names.into_iter().next())
    }

    /// Logs what it did, unless there is too much of it: one workspace must not push out the entries of others.
    pub(super) fn log(&self, shared: &Shared, entry: LogEntry) {
        if lock(&self.log).take(1, Instant::now()) {
            shared.log.append(entry);
        } else {
            Counting::add(&self.counting.log_suppressed, 1);
        }
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
}

impl Asker for Client {
    fn policy(&self) -> Option<Arc<Policy>> {
        Some(self.current_policy())
    }

    fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    fn lookups(&self) -> &Semaphore {
        &self.lookups
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn is_own_address(&self, address: Ipv4Addr) -> bool {
        host::is_own_address(address).unwrap_or(true)
    }

    fn is_in_pool(&self, address: Ipv4Addr) -> bool {
        self.shared.upgrade().is_none_or(|shared| shared.pool.range().contains(&address))
    }

    fn take_query(&self) -> bool {
        lock(&self.queries).take(1, Instant::now())
    }

    fn count_query(&self) {
        Counting::add(&self.counting.queries, 1);
    }

    fn refuse_name(&self, name: String, rule: &Rule) {
        let Some(shared) = self.shared.upgrade() else { return };
        Counting::add(&self.counting.refused, 1);
        let mut entry = self.entry(LogEvent::Refused, Protocol::Udp, rule.to_string());
        entry.name = Some(name);
        entry.port = 53;
        self.log(&shared, entry);
    }

    async fn wait_until_allowed(&self, name: &str, rule: &Rule) -> bool {
        if !rule.can_be_asked_for() {
            return false;
        }
        let Ok(_place) = self.waiting.try_acquire() else { return false };
        let mut changes = self.policy.subscribe();
        let answered = async {
            loop {
                let (is_allowed, waits) = {
                    let policy = changes.borrow_and_update();
                    (policy.name_verdict(name).allowed, policy.ask() == Ask::Wait)
                };
                if is_allowed || !waits || changes.changed().await.is_err() {
                    return is_allowed;
                }
            }
        };
        tokio::time::timeout(self.ask_limit, answered).await.unwrap_or(false)
    }

    async fn pin(&self, name: &str, found: Vec<(Ipv4Addr, Duration)>) {
        {
            let (mut pins, now) = (lock(&self.pins), Instant::now());
            for (address, lifetime) in &found {
                pins.pin(*address, name, *lifetime, now);
            }
        }
        if self.current_policy().packet_rules().listed.is_none() {
            return;
        }
        let Some(shared) = self.shared.upgrade() else { return };
        let (id, addresses) = (self.id, found.into_iter().map(|(address, _)| address).collect::<Vec<_>>());
        let done = tokio::task::spawn_blocking(move || shared.open_pins(id, &addresses)).await;
        if let Ok(Err(error)) = done {
            // The address stays closed.
            tracing::warn!(%error, name, "an address could not be opened");
        }
    }
}

fn pin(address: Ipv4Addr, left: Duration, listed: bool, exact: bool) -> Pin {
    Pin { address, seconds: left.as_secs().max(1), listed, exact }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
