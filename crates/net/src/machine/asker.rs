//! A machine that asks for names.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Machine;
use crate::dns::{Asker, Resolver};
use agentiso_policy::egress::{Policy, Protocol, Rule};

impl Asker for Machine {
    fn policy(&self) -> Option<Arc<Policy>> {
        Self::policy(self)
    }

    fn resolver(&self) -> &Resolver {
        Self::resolver(self)
    }

    fn mtu(&self) -> usize {
        self.card.mtu
    }

    fn is_own_address(&self, address: Ipv4Addr) -> bool {
        Self::is_own_address(self, address)
    }

    fn is_in_pool(&self, address: Ipv4Addr) -> bool {
        Self::is_in_pool(self, address)
    }

    fn take_query(&self) -> bool {
        Self::take_query(self)
    }

    fn count_query(&self) {
        Self::count_query(self);
    }

    fn refuse_name(&self, name: String, rule: &Rule) {
        self.log_refused(Protocol::Udp, Some(name), None, rule);
    }

    async fn wait_for_answer(&self, rule: &Rule, is_allowed: impl Fn() -> bool + Send + Sync) -> bool {
        self.waits_for_answer(rule) && Self::wait_for_answer(self, is_allowed).await
    }

    async fn pin(&self, name: &str, found: Vec<(Ipv4Addr, Duration)>) {
        let (mut pins, now) = (self.pins(), Instant::now());
        for (address, lifetime) in found {
            pins.pin(address, name, lifetime, now);
        }
    }
}
