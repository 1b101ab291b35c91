//! A machine that asks for names.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

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

    fn lookups(&self) -> &Semaphore {
        &self.lookups
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

    async fn wait_until_allowed(&self, name: &str, rule: &Rule) -> bool {
        let Ok(_place) = self.waiting.try_acquire() else { return false };
        let is_allowed = || self.policy().is_some_and(|policy| policy.name_verdict(name).allowed);
        self.waits_for_answer_to(rule) && self.wait_for_answer(is_allowed).await
    }

    async fn pin(&self, name: &str, found: Vec<(Ipv4Addr, Duration)>) {
        let (mut pins, now) = (self.pins(), Instant::now());
        for (address, lifetime) in found {
            pins.pin(address, name, lifetime, now);
        }
    }
}
