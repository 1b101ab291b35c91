//! What workspaces may reach: their rules, their addresses, and their machines' cards.
//!
//! ```text
//!  address reserved with the intent ─┬─► attached to the router with its rules ─┬─► card plugged in ─► recorded
//!                                    └─► machine started, given its identity,   │
//!                                        and its card configured by the agent ──┘
//! ```
//!
//! The card is plugged in last, so no packet leaves before the machine has its own addresses.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::Duration;

use agentiso_blocking::in_place;
use agentiso_core::{Code, Egress, Failure, NetworkRules, NetworkState, WorkspaceId};
use agentiso_meta::{MetaError, Tx, Workspace};
use agentiso_net::egress::ProxySetup;
use agentiso_policy::egress::Policy;
use agentiso_vmm::link::LinkError;
use agentiso_vmm::{Machine, Plug, VmError};

use super::Workspaces;
use super::intent::Intent;
use super::machine::MachineState;
use super::undertaking::{Undertaking, internal};
use crate::network::Wired;

/// How long an agent may take to configure the card.
const CARD_LIMIT: Duration = Duration::from_secs(30);

/// Addresses that a transaction chose. Too few of them is the caller's failure, not the database's.
type Chosen = Result<Result<Vec<Ipv4Addr>, Failure>, MetaError>;

impl Workspaces {
    /// Records the intent of a change, with a free address for each of the workspaces that get these rules.
    pub(crate) fn undertake_with_addresses(
        &self,
        kind: &str,
        workspace: Option<WorkspaceId>,
        intent: Intent,
        count: usize,
    ) -> Result<(Undertaking<'_>, Vec<Ipv4Addr>), Failure> {
        let addresses = self.free_addresses(count)?;
        let begun = in_place(|| {
            self.meta.write(|tx| {
                let addresses = match addresses(tx)? {
                    Ok(addresses) => addresses,
                    Err(failure) => return Ok(Err(failure)),
                };
                let intent = Intent { addresses, ..intent };
                match serde_json::to_value(&intent) {
                    Ok(value) => Ok(Ok((tx.begin(kind, workspace, &value)?, intent))),
                    Err(error) => Ok(Err(internal(error))),
                }
            })
        })??;
        let (operation, intent) = begun;
        let addresses = intent.addresses.clone();
        Ok((self.resume_undertaking(operation, intent), addresses))
    }

    /// Chooses free addresses, within the transaction that records who gets them. Fails early if this host cannot give
    /// workspaces a network.
    pub(super) fn free_addresses(&self, count: usize) -> Result<impl FnOnce(&Tx<'_>) -> Chosen, Failure> {
        let routes = match count {
            0 => Vec::new(),
            _ => {
                self.net.check()?;
                self.net.routes()?
            }
        };
        let pool = self.net.pool;
        Ok(move |tx: &Tx<'_>| {
            let mut addresses = Vec::new();
            let mut used = if count == 0 { BTreeSet::new() } else { used_addresses(tx)? };
            for _ in 0..count {
                match pool.allocate(&used, &routes) {
                    Ok(address) => addresses.push(address),
                    Err(error) => return Ok(Err(Failure::from(error))),
                }
                used.extend(addresses.last());
            }
            Ok(Ok(addresses))
        })
    }

    /// Attaches a workspace to the network, if it has an address, while its machine is made ready, which includes that
    /// its card is configured.
    pub(crate) async fn attach_while<T>(
        &self,
        id: WorkspaceId,
        network: &NetworkState,
        ready: impl Future<Output = Result<T, Failure>>,
    ) -> Result<(T, Option<(Wired, Plug)>), Failure> {
        // Both run to their end: a request to the router is not given up half way.
        let (attached, ready) = tokio::join!(self.net.attach(id, network), ready);
        Ok((ready?, attached?))
    }

    /// Configures the card of a machine whose workspace has an address, and what its proxy needs in the guest.
    pub(crate) async fn configure_card(
        &self,
        id: WorkspaceId,
        machine: &Machine,
        network: &NetworkState,
    ) -> Result<ProxySetup, Failure> {
        let Some(address) = network.address else { return Ok(ProxySetup::default()) };
        let set = machine.guest().set_card(Some(self.net.card(id, address)));
        machine.during("configuring its network card", CARD_LIMIT, set).await?;
        self.prepare_trust(id, machine, &network.rules).await
    }

    /// Plugs the configured card of a machine in, if its workspace is attached.
    pub(crate) async fn plug(
        &self,
        id: WorkspaceId,
        machine: &Machine,
        rules: &NetworkRules,
        proxy: ProxySetup,
        attached: Option<(Wired, Plug)>,
    ) -> Result<Option<Wired>, Failure> {
        let Some((wired, plug)) = attached else { return Ok(None) };
        if rules.egress == Egress::Proxy {
            self.net.set_proxy(id, proxy).await?;
        }
        machine.plug_card(plug).await?;
        Ok(Some(wired))
    }

    /// Attaches a machine that is ready to the network, if it has an address.
    pub(crate) async fn wire(
        &self,
        id: WorkspaceId,
        machine: &Machine,
        network: &NetworkState,
    ) -> Result<Option<Wired>, Failure> {
        let configured = self.configure_card(id, machine, network);
        let (proxy, attached) = self.attach_while(id, network, configured).await?;
        self.plug(id, machine, &network.rules, proxy, attached).await
    }

    /// Disconnects the card of a machine, and takes it down.
    async fn unwire(&self, machine: &Machine) -> Result<(), Failure> {
        machine.unplug_card().await?;
        self.take_card_down(machine).await
    }

    /// Takes the card of a machine down, whose memory or disk may remember a network that it does not have.
    pub(crate) async fn take_card_down(&self, machine: &Machine) -> Result<(), Failure> {
        let set = machine.guest().set_card(None);
        match machine.during("taking its network card down", CARD_LIMIT, set).await {
            // An agent that is too old to know the request has never configured a card.
            Err(VmError::Link(LinkError::OldAgent { .. })) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Changes what a workspace may reach, at once if it runs.
    pub async fn set_network(&self, id: WorkspaceId, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        Policy::check(rules)?;
        let (workspace, _lock) = self.lock(id).await?;
        match (workspace.network.address, rules.is_off()) {
            (None, true) => self.record_network(id, NetworkState { rules: rules.clone(), address: None }),
            (None, false) => self.turn_on(&workspace, rules).await,
            (Some(_), true) => self.turn_off(&workspace, rules).await,
            (Some(address), false) => {
                let network = self.change_rules(&workspace, rules, address).await?;
                self.refresh_proxy(&Workspace { network: network.clone(), ..workspace }).await?;
                Ok(network)
            }
        }
    }

    async fn turn_on(&self, workspace: &Workspace, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        let (undertaking, addresses) =
            self.undertake_with_addresses("network", Some(workspace.id), Intent::default(), 1)?;
        let network = NetworkState { rules: rules.clone(), address: addresses.first().copied() };
        let Some((state, machine)) = self.reach(workspace).await? else {
            undertaking.finish(|tx| tx.set_network(workspace.id, &network))?;
            return Ok(network);
        };
        let done = self.plug_in(workspace.id, &machine, &network, state, Some(undertaking)).await;
        if done.is_err() {
            self.unplug_failed(&machine).await;
        }
        self.connections.leave(workspace.id, machine);
        done.map(|()| network)
    }

    /// Attaches a running machine and records it. Without an undertaking its rules are recorded already.
    async fn plug_in(
        &self,
        id: WorkspaceId,
        machine: &Machine,
        network: &NetworkState,
        state: MachineState,
        undertaking: Option<Undertaking<'_>>,
    ) -> Result<(), Failure> {
        let wired = self.wire(id, machine, network).await?;
        let card = wired.as_ref().map(|wired| wired.card.clone());
        let value = MachineState { card, ..state }.to_value()?;
        let record = |tx: &Tx<'_>| {
            tx.set_network(id, network)?;
            tx.set_running(id, &value)
        };
        match undertaking {
            Some(undertaking) => undertaking.finish(record)?,
            None => in_place(|| self.meta.write(record))?,
        }
        if let Some(wired) = wired {
            wired.keep();
        }
        Ok(())
    }

    async fn unplug_failed(&self, machine: &Machine) {
        if let Err(failure) = self.unwire(machine).await {
            tracing::warn!(%failure, "could not take a network card down");
        }
    }

    async fn turn_off(&self, workspace: &Workspace, rules: &NetworkRules) -> Result<NetworkState, Failure> {
        // Closed first. If anything fails after this, the upkeep restores what is recorded.
        self.net.detach(workspace.id).await?;
        if let Some((_, machine)) = self.reach(workspace).await? {
            let done = self.unwire(&machine).await;
            self.connections.leave(workspace.id, machine);
            done?;
        }
        self.record_network(workspace.id, NetworkState { rules: rules.clone(), address: None })
    }

    async fn change_rules(
        &self,
        workspace: &Workspace,
        rules: &NetworkRules,
        address: Ipv4Addr,
    ) -> Result<NetworkState, Failure> {
        let network = NetworkState { rules: rules.clone(), address: Some(address) };
        let is_running = workspace.machine().is_some();
        if is_running && !self.net.set_policy(workspace.id, rules).await? {
            // Its machine is not attached, or has ended: nothing passes now, and the upkeep attaches it with what is
            // recorded.
            self.net.changed.notify_one();
        }
        let recorded = self.record_network(workspace.id, network);
        if recorded.is_err()
            && is_running
            && let Err(failure) = self.net.set_policy(workspace.id, &workspace.network.rules).await
        {
            tracing::warn!(%failure, "could not restore the rules of a workspace");
        }
        recorded
    }

    fn record_network(&self, id: WorkspaceId, network: NetworkState) -> Result<NetworkState, Failure> {
        in_place(|| self.meta.write(|tx| tx.set_network(id, &network)))?;
        Ok(network)
    }

    /// The network that a workspace starts with: its own, with a new address if the host has a route to the old one.
    pub(crate) fn network_at_start<'a>(
        &'a self,
        kind: &str,
        workspace: &Workspace,
        intent: Intent,
    ) -> Result<(Undertaking<'a>, NetworkState), Failure> {
        let mut network = workspace.network.clone();
        if let Some(address) = network.address {
            self.net.check()?;
            if !self.net.is_usable(address, &self.net.routes()?) {
                let (undertaking, addresses) =
                    self.undertake_with_addresses(kind, Some(workspace.id), intent, 1)?;
                network.address = addresses.first().copied();
                return Ok((undertaking, network));
            }
        }
        Ok((self.undertake(kind, Some(workspace.id), intent)?, network))
    }

    /// Gives a restored machine the network that its workspace has now. The restore is done: if this fails, the workspace
    /// has no network until the upkeep has repaired that.
    pub(crate) async fn wire_restored(&self, workspace: &Workspace, machine: &Machine, state: MachineState) {
        let done = match workspace.network.address {
            Some(_) => self.plug_in(workspace.id, machine, &workspace.network, state, None).await,
            None => self.take_card_down(machine).await,
        };
        if let Err(failure) = done {
            tracing::warn!(%failure, workspace = %workspace.id, "a restored machine has no network yet");
            self.net.changed.notify_one();
        }
    }

    /// Attaches a machine again, after a new router or a crash between two steps.
    pub(crate) async fn rewire(&self, id: WorkspaceId) -> Result<(), Failure> {
        let (workspace, _lock) = match self.lock(id).await {
            Err(failure) if failure.code() == Code::WorkspaceNotFound => return Ok(()),
            locked => locked?,
        };
        let Some(address) = workspace.network.address else { return Ok(()) };
        let mut network = workspace.network.clone();
        let mut undertaking = None;
        if !self.net.is_usable(address, &self.net.routes()?) {
            let (begun, addresses) =
                self.undertake_with_addresses("network", Some(id), Intent::default(), 1)?;
            network.address = addresses.first().copied();
            undertaking = Some(begun);
        }
        let Some((state, machine)) = self.reach(&workspace).await? else { return Ok(()) };
        let done = self.plug_in(id, &machine, &network, state, undertaking).await;
        self.connections.leave(id, machine);
        done
    }
}

/// The addresses of all workspaces, and those of changes that are under way.
fn used_addresses(tx: &Tx<'_>) -> Result<BTreeSet<Ipv4Addr>, MetaError> {
    let mut used = tx.addresses()?;
    let alive = tx.operations()?.into_iter().filter(|operation| operation.owner.is_alive());
    // An intent that cannot be understood is reported by the recovery.
    used.extend(
        alive.filter_map(|operation| Intent::of(&operation).ok()).flat_map(|intent| intent.addresses),
    );
    Ok(used)
}
