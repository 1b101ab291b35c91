//! The decisions about one connection of a guest, and what is logged of them.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_policy::egress::{Policy, Protocol, Rule, Verdict};

use super::answer::Refusal;
use super::setup::{Granted, Proxy};
use crate::machine::{Handling, Machine, Record};

/// One connection through the proxy.
pub(crate) struct Gate {
    pub(super) machine: Arc<Machine>,
    to: Ipv4Addr,
    port: u16,
    record: Arc<Record>,
}

impl Gate {
    pub(crate) fn new(machine: Arc<Machine>, record: Arc<Record>) -> Self {
        record.handled(Handling::Unknown);
        Self { machine, to: record.address, port: record.port, record }
    }

    pub(super) fn patience(&self) -> Duration {
        self.machine.limits.first_bytes()
    }

    pub(super) fn proxy(&self) -> Arc<Proxy> {
        self.machine.proxy()
    }

    /// Whether `allow_cidrs` opens the address, so that connections that name no host pass too.
    pub(super) fn is_open_range(&self) -> bool {
        let verdict = self.machine.decide_named(self.to, self.port, Protocol::Tcp, &[]);
        verdict.allowed && matches!(verdict.rule, Rule::AllowCidr(_))
    }

    /// Decides about a name that the guest asks for: it must have been resolved to this address for this workspace.
    pub(super) fn name_verdict(&self, name: &str) -> Verdict {
        let is_pinned = self.machine.pins().names(self.to, Instant::now()).iter().any(|known| known == name);
        if is_pinned {
            return self.machine.decide_named(self.to, self.port, Protocol::Tcp, &[name.to_owned()]);
        }
        if !self.is_open_range() {
            return Verdict::refuse(Rule::OtherName(name.to_owned()));
        }
        match self.policy().map(|policy| policy.name_verdict(name)) {
            Some(Verdict { rule: rule @ Rule::DenyDomain(_), .. }) => Verdict::refuse(rule),
            _ => self.machine.decide_named(self.to, self.port, Protocol::Tcp, &[]),
        }
    }

    /// Decides about an address instead of a name.
    pub(super) fn literal_verdict(&self, address: Ipv4Addr) -> Verdict {
        if address == self.to && self.is_open_range() {
            return self.machine.decide_named(self.to, self.port, Protocol::Tcp, &[]);
        }
        Verdict::refuse(Rule::NoName)
    }

    /// Whether the requests to a host have to be seen.
    pub(super) fn needs_interception(&self, name: &str) -> bool {
        needs_interception(self.policy().as_deref(), &self.proxy(), name)
    }

    pub(super) fn request_verdict(&self, host: &str, method: &str, path: &str) -> Verdict {
        match self.policy() {
            Some(policy) => policy.request_verdict(host, method, path),
            None => Verdict::refuse(Rule::InternetOff),
        }
    }

    /// Notes how the connection is handled, and the name it is for.
    pub(super) fn handled(&self, handling: Handling) {
        self.record.handled(handling);
    }

    /// Logs that something was refused.
    pub(super) fn log_refused(&self, name: Option<&str>, rule: &Rule) {
        let name = name.map(str::to_owned).or_else(|| self.record.name());
        self.machine.log_refused(Protocol::Tcp, name, Some((self.to, self.port)), rule);
    }

    /// Logs that the connection is allowed but cannot be used.
    pub(super) fn log_failed(&self, name: &str, what: &str) {
        self.machine.log_failed(name, (self.to, self.port), what);
    }

    pub(super) fn refuse(&self, name: Option<&str>, rule: &Rule) -> Refusal {
        self.log_refused(name, rule);
        Refusal::by_rule(name, rule)
    }

    /// Refuses and reports a placeholder where it may not be.
    pub(super) fn misplaced(&self, host: &str, secret: &Granted) -> Refusal {
        let rule = Rule::Placeholder(secret.name.clone());
        self.machine.log_alert(host, (self.to, self.port), &rule);
        tracing::warn!(workspace = %self.machine.id, host, secret = secret.name, "a placeholder was misplaced");
        Refusal::by_rule(Some(host), &rule)
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        self.machine.policy()
    }
}

/// Whether the requests to a host have to be seen, for a rule or a secret.
pub(crate) fn needs_interception(policy: Option<&Policy>, proxy: &Proxy, name: &str) -> bool {
    policy.is_none_or(|policy| policy.has_request_rules(name)) || proxy.has_secret_for(name)
}
