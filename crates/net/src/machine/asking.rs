//! Refused flows and names that wait for an answer to a request for approval, if the rules say so.
//!
//! The refusal is logged at once, which raises the request. A grant changes the policy; then the flow is decided again. A flow that waits counts against the limit on connections, and is refused in the end.

use std::sync::Arc;

use agentiso_core::Ask;
use agentiso_policy::egress::{Protocol, Rule};

use super::flow::{Flow, FlowKey};
use super::state::{Machine, lock};

impl Machine {
    /// Whether what a rule refuses has to wait for an answer.
    pub(crate) fn waits_for_answer_to(&self, rule: &Rule) -> bool {
        rule.can_be_asked_for() && self.asks()
    }

    fn asks(&self) -> bool {
        self.policy().is_some_and(|policy| policy.ask() == Ask::Wait)
    }

    /// Returns once `is_allowed` says so, or when the time is up or nothing waits any more. Tells which.
    pub(crate) async fn wait_for_answer(&self, is_allowed: impl Fn() -> bool) -> bool {
        let mut changes = self.shared.policy_changes();
        let answered = async {
            loop {
                // Looked at after the changes were marked as seen, so that none is missed.
                changes.borrow_and_update();
                if is_allowed() {
                    return true;
                }
                if !self.asks() || changes.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(self.limits.ask_limit(), answered).await.unwrap_or(false)
    }

    /// Lets a refused connection wait. The guest repeats its request meanwhile, which is ignored.
    pub(super) fn hold_tcp(self: &Arc<Self>, key: FlowKey, name: Option<String>, rule: &Rule, syn: &[u8]) {
        let Some(permit) = self.permit() else {
            return self.refuse_tcp(key, name, &Rule::Limit("connections"), syn);
        };
        self.log_refused(Protocol::Tcp, name, Some((key.to, key.port)), rule);
        lock(&self.flows).insert(key, Flow::Held);
        let (machine, syn) = (Arc::clone(self), syn.to_vec());
        self.spawn(async move {
            let is_allowed = || machine.decide(key.to, key.port, Protocol::Tcp).0.allowed;
            let allowed = machine.wait_for_answer(is_allowed).await;
            machine.forget(key, None);
            drop(permit);
            if allowed {
                machine.open_tcp(key, &syn);
            } else {
                machine.send(machine.framer.reset(&syn));
            }
        });
    }
}
