//! Who asks: a workspace, as the resolver sees it.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use agentiso_policy::egress::{Policy, Rule};
use tokio::sync::Semaphore;

use super::Resolver;

/// A workspace that asks for names, whichever back end its card is on.
pub(crate) trait Asker: Send + Sync {
    /// Its policy; nothing is answered without one.
    fn policy(&self) -> Option<Arc<Policy>>;
    /// The resolver of the installation.
    fn resolver(&self) -> &Resolver;
    /// Its places among the questions to the host's resolvers.
    fn lookups(&self) -> &Semaphore;
    /// The largest packet it receives.
    fn mtu(&self) -> usize;
    /// Whether an address is the host's. If the host cannot tell, it is.
    fn is_own_address(&self, address: Ipv4Addr) -> bool;
    /// Whether an address is one that workspaces have.
    fn is_in_pool(&self, address: Ipv4Addr) -> bool;
    /// Takes one query from the limit on queries.
    fn take_query(&self) -> bool;
    /// Counts a query that is answered.
    fn count_query(&self);
    /// Logs a refused name.
    fn refuse_name(&self, name: String, rule: &Rule);
    /// Waits until a refused name is allowed, if the rules say that it waits. Tells whether it is.
    fn wait_until_allowed(&self, name: &str, rule: &Rule) -> impl Future<Output = bool> + Send;
    /// Pins addresses to a name for their lifetimes. The answer is sent after this.
    fn pin(&self, name: &str, found: Vec<(Ipv4Addr, Duration)>) -> impl Future<Output = ()> + Send;
}
