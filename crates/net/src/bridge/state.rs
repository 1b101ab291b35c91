//! What is attached, and how it is changed: one transaction of the filter at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use agentiso_core::{Egress, WorkspaceId};
use agentiso_policy::egress::{Policy, Protocol, Rule, Verdict};

use super::client::Client;
use super::conntrack;
use super::error::BridgeError;
use super::links::Links;
use super::namespace::Namespace;
use super::nft;
use super::rules::{self, BRIDGE, Card};
use super::tap;
use crate::dns::Resolver;
use crate::log::{Log, LogEvent};
use crate::plan::{GATEWAY_MAC, Pool};
use crate::router::{MachineSpec, RouterError, check};

/// What the parts of the back end share.
pub(super) struct Shared {
    pub(super) pool: Pool,
    pub(super) namespace: Namespace,
    pub(super) log: Log,
    pub(super) resolver: Arc<Resolver>,
    state: Mutex<State>,
    clients: RwLock<HashMap<Ipv4Addr, Arc<Client>>>,
    /// Flows that were cut, and whose end the kernel has not reported yet.
    cut: Mutex<VecDeque<Vec<u8>>>,
}

/// Flows that are remembered as cut.
const REMEMBERED: usize = 65_536;

#[derive(Default)]
struct State {
    attached: BTreeMap<WorkspaceId, Attached>,
    /// The number of every group that was ever used: its set stays.
    groups: BTreeMap<String, u32>,
    members: BTreeSet<(u32, Ipv4Addr)>,
    host: Vec<Ipv4Addr>,
}

struct Attached {
    spec: MachineSpec,
    client: Arc<Client>,
    /// Keeps the device while QEMU is being restarted.
    _tap: OwnedFd,
}

impl Attached {
    fn card(&self) -> Card<'_> {
        Card { address: self.spec.address, mac: self.spec.workspace.mac(), limits: &self.spec.limits }
    }
}

impl Shared {
    pub(super) fn new(pool: Pool, namespace: Namespace, resolver: Resolver) -> Self {
        Self {
            pool,
            namespace,
            log: Log::new(),
            resolver: Arc::new(resolver),
            state: Mutex::default(),
            clients: RwLock::default(),
            cut: Mutex::default(),
        }
    }

    /// The workspace with an address.
    pub(super) fn client(&self, address: Ipv4Addr) -> Option<Arc<Client>> {
        self.clients.read().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the links of the namespace.
    pub(super) fn links<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Links) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.namespace.run(move || change(&mut Links::open()?))?
    }

    /// Builds the bridge and the filter with everything that is attached, in place of what is there.
    pub(super) fn build(&self) -> Result<(), BridgeError> {
        let state = self.state();
        let ports: Vec<_> = state
            .attached
            .values()
            .map(|attached| (attached.spec.address, attached.spec.workspace.mac(), attached.spec.mtu))
            .collect();
        let (gateway, range) = (self.pool.gateway(), self.pool.range());
        self.links(move |links| {
            if links.find(BRIDGE)?.is_none() {
                links.add_bridge(BRIDGE, GATEWAY_MAC, gateway)?;
                links.route(range, BRIDGE, None)?;
            }
            let bridge = links.find(BRIDGE)?;
            for (address, mac, mtu) in ports {
                let name = rules::device(address);
                // A device whose machine has ended its card is gone; the daemon attaches it again.
                if links.find(&name)?.is_some() && links.master(&name)? != bridge {
                    links.add_port(&name, BRIDGE, mtu)?;
                    links.bind_port(&name, BRIDGE, mac, address, mtu)?;
                }
            }
            Ok(())
        })
        .map_err(BridgeError::at("set up the bridge"))?;

        let mut text = rules::base(&self.pool, &state.host);
        state.groups.values().for_each(|number| text.push_str(&rules::add_group(*number)));
        for (number, address) in &state.members {
            text.push_str(&rules::join_group(*number, *address, true));
        }
        for attached in state.attached.values() {
            text.push_str(&rules::attach(&attached.card()));
            text.push_str(&policy_text(&state.groups, attached, &attached.spec.policy));
        }
        nft::transaction(&self.namespace, text).map_err(BridgeError::at("set up the packet filter"))
    }

    /// Attaches a workspace and returns the file of its TAP device.
    pub(super) fn attach(self: &Arc<Self>, spec: MachineSpec) -> Result<OwnedFd, RouterError> {
        let mut state = self.state();
        check(&self.pool, &spec, state.attached.values().map(|attached| &attached.spec))?;
        check_policy(&spec.policy)?;
        if state.attached.contains_key(&spec.workspace) {
            self.remove(&mut state, spec.workspace)?;
        }
        let (name, address, mac, mtu) =
            (rules::device(spec.address), spec.address, spec.workspace.mac(), spec.mtu);
        let created = self.namespace.run(move || {
            let tap = tap::create(&name)?;
            let mut links = Links::open()?;
            links.add_port(&name, BRIDGE, mtu)?;
            links.bind_port(&name, BRIDGE, mac, address, mtu)?;
            Ok(tap)
        });
        let tap = created.flatten().map_err(BridgeError::at("create a TAP device"))?;
        let given = tap.try_clone().map_err(BridgeError::at("copy a descriptor"))?;

        let client = Client::new(&spec, Arc::clone(&self.resolver), Arc::downgrade(self));
        let attached = Attached { spec, client: Arc::clone(&client), _tap: tap };
        let mut groups = state.groups.clone();
        let mut text = rules::attach(&attached.card());
        let members = regroup(&mut groups, &state.members, address, &attached.spec.policy, &mut text);
        text.push_str(&policy_text(&groups, &attached, &attached.spec.policy));
        nft::transaction(&self.namespace, text).map_err(BridgeError::at("change the packet filter"))?;
        (state.groups, state.members) = (groups, members);
        self.clients.write().unwrap_or_else(PoisonError::into_inner).insert(address, client);
        state.attached.insert(attached.spec.workspace, attached);
        Ok(given)
    }

    /// Detaches a workspace: its flows end and its device is removed.
    pub(super) fn detach(&self, workspace: WorkspaceId) -> Result<(), RouterError> {
        self.remove(&mut self.state(), workspace)
    }

    fn remove(&self, state: &mut State, workspace: WorkspaceId) -> Result<(), RouterError> {
        let attached = state.attached.get(&workspace).ok_or(RouterError::NotAttached(workspace))?;
        let address = attached.spec.address;
        let left: BTreeSet<_> =
            state.members.iter().filter(|(_, member)| *member == address).copied().collect();
        let mut text = rules::detach(&attached.card());
        left.iter().for_each(|(number, _)| text.push_str(&rules::join_group(*number, address, false)));
        nft::transaction(&self.namespace, text).map_err(BridgeError::at("change the packet filter"))?;
        state.members.retain(|member| !left.contains(member));
        self.clients.write().unwrap_or_else(PoisonError::into_inner).remove(&address);
        state.attached.remove(&workspace);
        let name = rules::device(address);
        self.links(move |links| links.remove(&name)).map_err(BridgeError::at("remove a TAP device"))?;
        self.cut(|from, to| from == address || to == address, |_| false);
        Ok(())
    }

    /// Sets policies in one transaction, and ends the flows they no longer allow.
    pub(super) fn set_policies(&self, changes: Vec<(WorkspaceId, Policy)>) -> Result<(), RouterError> {
        let mut state = self.state();
        let (mut groups, mut members) = (state.groups.clone(), state.members.clone());
        let mut text = String::new();
        for (workspace, policy) in &changes {
            check_policy(policy)?;
            let attached = state.attached.get(workspace).ok_or(RouterError::NotAttached(*workspace))?;
            members = regroup(&mut groups, &members, attached.spec.address, policy, &mut text);
            text.push_str(&policy_text(&groups, attached, policy));
        }
        nft::transaction(&self.namespace, text).map_err(BridgeError::at("change the packet filter"))?;
        (state.groups, state.members) = (groups, members);
        let mut changed = Vec::new();
        for (workspace, policy) in changes {
            if let Some(attached) = state.attached.get_mut(&workspace) {
                attached.client.set_policy(&policy);
                attached.spec.policy = policy;
                changed.push(attached.spec.address);
            }
        }
        drop(state);
        let concerns = |from, to| changed.contains(&from) || changed.contains(&to);
        self.cut(concerns, |flow| self.verdict(flow.from, flow.to, flow.port, flow.protocol).0.allowed);
        Ok(())
    }

    /// Opens addresses that a workspace has resolved, if its policy still lists their names.
    pub(super) fn open_pins(&self, workspace: WorkspaceId, addresses: &[Ipv4Addr]) -> io::Result<()> {
        let state = self.state();
        let Some(attached) = state.attached.get(&workspace) else { return Ok(()) };
        let (open, _) = attached.client.pinned(&attached.spec.policy);
        let text: String = open
            .iter()
            .filter(|pin| addresses.contains(&pin.address))
            .map(|pin| rules::pin(attached.spec.address, pin))
            .collect();
        if text.is_empty() { Ok(()) } else { nft::transaction(&self.namespace, text) }
    }

    /// Tells the filter which addresses are the host's.
    pub(super) fn set_host(&self, addresses: Vec<Ipv4Addr>) -> io::Result<()> {
        let mut state = self.state();
        if state.host == addresses {
            return Ok(());
        }
        nft::transaction(&self.namespace, rules::host(&addresses))?;
        state.host = addresses;
        Ok(())
    }

    /// What policy says about a flow, and the name of its destination.
    pub(super) fn verdict(
        &self,
        from: Ipv4Addr,
        to: Ipv4Addr,
        port: u16,
        protocol: Protocol,
    ) -> (Verdict, Option<String>) {
        let Some(client) = self.client(from) else {
            return (Verdict::refuse(Rule::NoSuchWorkspace), None);
        };
        if to == self.pool.gateway() {
            return (Verdict::refuse(Rule::GatewayClosed), None);
        }
        if !self.pool.range().contains(&to) {
            return client.decide(to, port, protocol);
        }
        let verdict = match self.client(to) {
            Some(other) => {
                client.current_policy().neighbour_verdict(&other.current_policy(), to, port, protocol)
            }
            None => Verdict::refuse(Rule::NoSuchWorkspace),
        };
        (verdict, None)
    }

    /// Ends the flows between certain addresses, but for those that may stay.
    fn cut(
        &self,
        concerns: impl Fn(Ipv4Addr, Ipv4Addr) -> bool,
        may_stay: impl Fn(&conntrack::Flow) -> bool,
    ) {
        let flows = match self.namespace.run(conntrack::list).flatten() {
            Ok(flows) => flows,
            Err(error) => return tracing::warn!(%error, "the flows cannot be listed"),
        };
        let cut: Vec<_> =
            flows.into_iter().filter(|flow| concerns(flow.from, flow.to) && !may_stay(flow)).collect();
        for flow in &cut {
            if let Some(client) = self.client(flow.from) {
                let (verdict, name) = self.verdict(flow.from, flow.to, flow.port, flow.protocol);
                let mut entry = client.entry(LogEvent::Cut, flow.protocol, verdict.rule.to_string());
                (entry.name, entry.address, entry.port) = (name, Some(flow.to), flow.port);
                (entry.bytes_sent, entry.bytes_received) = (flow.sent, flow.received);
                client.log(self, entry);
            }
        }
        {
            let mut known = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(cut.iter().map(|flow| flow.tuple().to_vec()));
            let surplus = known.len().saturating_sub(REMEMBERED);
            known.drain(..surplus);
        }
        if let Err(error) = self.namespace.run(move || conntrack::remove(&cut)).flatten() {
            tracing::warn!(%error, "flows cannot be ended");
        }
    }

    /// Whether a flow that has ended was cut. Asked once for each.
    pub(super) fn was_cut(&self, flow: &conntrack::Flow) -> bool {
        let mut known = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|tuple| tuple == flow.tuple());
        place.is_some_and(|place| known.remove(place).is_some())
    }

    /// The attached workspaces.
    pub(super) fn attached(&self) -> Vec<(MachineSpec, Arc<Client>)> {
        let state = self.state();
        state
            .attached
            .values()
            .map(|attached| (attached.spec.clone(), Arc::clone(&attached.client)))
            .collect()
    }
}

/// Refuses what the filter cannot do: without the proxy, names in connections would not be checked.
fn check_policy(policy: &Policy) -> Result<(), RouterError> {
    if policy.egress() == Egress::Proxy { Err(RouterError::NoProxy) } else { Ok(()) }
}

fn policy_text(groups: &BTreeMap<String, u32>, attached: &Attached, policy: &Policy) -> String {
    let (pins, denied) = attached.client.pinned(policy);
    rules::policy(attached.spec.address, policy, groups, &pins, &denied)
}

/// Moves a workspace between the sets of groups. Returns the new members of all groups.
fn regroup(
    groups: &mut BTreeMap<String, u32>,
    members: &BTreeSet<(u32, Ipv4Addr)>,
    address: Ipv4Addr,
    policy: &Policy,
    text: &mut String,
) -> BTreeSet<(u32, Ipv4Addr)> {
    let mut wanted = BTreeSet::new();
    for group in policy.neighbour_rules().groups.into_iter().flatten() {
        let next = groups.len() as u32;
        let number = *groups.entry(group.clone()).or_insert_with(|| {
            text.push_str(&rules::add_group(next));
            next
        });
        wanted.insert((number, address));
    }
    let before: BTreeSet<_> = members.iter().filter(|(_, member)| *member == address).copied().collect();
    for (number, _) in wanted.difference(&before) {
        text.push_str(&rules::join_group(*number, address, true));
    }
    for (number, _) in before.difference(&wanted) {
        text.push_str(&rules::join_group(*number, address, false));
    }
    members.difference(&before).copied().chain(wanted).collect()
}
