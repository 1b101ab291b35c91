//! What workspaces may reach. Nothing is reached here; rules and addresses are kept as a real host keeps them.

use std::net::Ipv4Addr;

use agentiso_core::{Failure, NetworkRules, NetworkState, WorkspaceId};
use agentiso_meta::{MetaError, Tx};
use agentiso_policy::egress::Policy;

use super::state::FakeHost;

impl FakeHost {
    pub(super) async fn change_network(
        &self,
        id: WorkspaceId,
        rules: &NetworkRules,
    ) -> Result<NetworkState, Failure> {
        Policy::check(rules)?;
        let _turn = self.turn(id).await;
        let state = self.inner.meta.write(|tx| {
            let before = tx.workspace(id)?.network;
            let address = before.address.filter(|_| !rules.is_off());
            let network = match address {
                Some(_) => NetworkState { rules: rules.clone(), address },
                None => network_of(tx, rules)?,
            };
            tx.set_network(id, &network)?;
            Ok(network)
        })?;
        Ok(state)
    }
}

/// Rules with a free address, if they need one.
pub(super) fn network_of(tx: &Tx<'_>, rules: &NetworkRules) -> Result<NetworkState, MetaError> {
    let used = tx.addresses()?;
    let mut free = (0x0a63_0002..).map(Ipv4Addr::from_bits).filter(|address| !used.contains(address));
    let address = if rules.is_off() { None } else { free.next() };
    Ok(NetworkState { rules: rules.clone(), address })
}
