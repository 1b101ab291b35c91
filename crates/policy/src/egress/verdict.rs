//! The verdict on one flow, and on one name.
//!
//! Rules in the order in which they decide:
//!
//! 1. IPv6, and ranges that can never be reached: refused.
//! 2. `allow_internet` off: refused.
//! 3. `deny_cidrs`, then `deny_domains`: refused.
//! 4. Closed ranges and the host's own addresses: refused unless `allow_cidrs` names them. A range names a closed range
//!    by lying within it, and the host only as a single address, so `0.0.0.0/0` opens neither.
//! 5. Other resolvers: refused unless named as a single address or exact name.
//! 6. If `allow_domains` or `allow_cidrs` is given: allowed if listed, otherwise refused.
//! 7. Allowed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use agentiso_core::Egress;
pub use agentiso_core::NetworkProtocol as Protocol;

use super::ranges::embedded_ipv4;
use super::{ClosedRange, DomainPattern, Policy, resolvers};

/// An address outside the workspaces, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The address.
    pub address: IpAddr,
    /// Whether the address is one of the host's own.
    pub is_host: bool,
    /// The names that were resolved to it for this workspace, in normal form.
    pub names: &'a [String],
}

/// A flow that a workspace wants to open.
#[derive(Clone, Copy, Debug)]
pub struct Flow<'a> {
    /// Where it goes.
    pub destination: Destination<'a>,
    /// The destination port.
    pub port: u16,
    /// Its transport.
    pub protocol: Protocol,
}

/// The rule that decided. Its text is what the log shows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rule {
    /// `allow_internet` is off.
    InternetOff,
    /// `allow_internet` is on and nothing narrows it.
    InternetOn,
    /// A range in `allow_cidrs`.
    AllowCidr(String),
    /// A range in `deny_cidrs`.
    DenyCidr(String),
    /// A pattern in `allow_domains`.
    AllowDomain(String),
    /// A pattern in `deny_domains`.
    DenyDomain(String),
    /// There are lists, and the destination is in none.
    NotListed,
    /// A range that is closed unless named.
    Closed(ClosedRange),
    /// An address of the host.
    HostAddress,
    /// IPv6 is off.
    Ipv6Off,
    /// A resolver other than the gateway.
    OtherResolver,
    /// The resolver on the gateway.
    GatewayResolver,
    /// Any other port of the gateway.
    GatewayClosed,
    /// Both workspaces are in this group.
    Group(String),
    /// One of the two workspaces has `allow_inter_vm` off.
    InterVmOff,
    /// The workspaces share no group.
    NoSharedGroup,
    /// The port is not in the other workspace's `allowed_ports`.
    PortNotAllowed,
    /// No workspace has the address.
    NoSuchWorkspace,
    /// A limit of the workspace is reached.
    Limit(&'static str),
    /// A rule of `http_rules`.
    Request(String),
    /// No rule of `http_rules` is about the host.
    NoRequestRules,
    /// There are `allow` rules for the host, and none matches.
    RequestNotListed,
    /// A path that servers could read in different ways.
    UnclearPath,
    /// The proxy found a name that was not resolved to the address.
    OtherName(String),
    /// The proxy found no name.
    NoName,
    /// The proxy passes TLS and HTTP alone.
    NotHttp(&'static str),
    /// The placeholder of a secret was sent where the secret may not be used.
    Placeholder(String),
}

impl Rule {
    /// Whether approval can be asked for what it refused: only for what is in no list.
    pub fn can_be_asked_for(&self) -> bool {
        matches!(self, Self::NotListed | Self::OtherResolver)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InternetOff => f.write_str("allow_internet: false"),
            Self::InternetOn => f.write_str("allow_internet: true"),
            Self::AllowCidr(range) => write!(f, "allow_cidrs: {range}"),
            Self::DenyCidr(range) => write!(f, "deny_cidrs: {range}"),
            Self::AllowDomain(pattern) => write!(f, "allow_domains: {pattern}"),
            Self::DenyDomain(pattern) => write!(f, "deny_domains: {pattern}"),
            Self::NotListed => f.write_str("not in allow_domains or allow_cidrs"),
            Self::Closed(range) => write!(f, "closed by default: {range}"),
            Self::HostAddress => f.write_str("closed by default: an address of the host"),
            Self::Ipv6Off => f.write_str("IPv6 is off"),
            Self::OtherResolver => f.write_str("closed by default: another resolver"),
            Self::GatewayResolver => f.write_str("gateway: resolver"),
            Self::GatewayClosed => f.write_str("gateway: no service on this port"),
            Self::Group(group) => write!(f, "allow_inter_vm: group {group}"),
            Self::InterVmOff => f.write_str("allow_inter_vm: false"),
            Self::NoSharedGroup => f.write_str("allow_inter_vm: no shared group"),
            Self::PortNotAllowed => f.write_str("allowed_ports: not listed"),
            Self::NoSuchWorkspace => f.write_str("no workspace has this address"),
            Self::Limit(limit) => write!(f, "limit: {limit}"),
            Self::Request(rule) => f.write_str(rule),
            Self::NoRequestRules => f.write_str("http_rules: none for this host"),
            Self::RequestNotListed => f.write_str("http_rules: no rule allows this request"),
            Self::UnclearPath => f.write_str("http_rules: the path can be read in different ways"),
            Self::OtherName(name) => write!(f, "egress proxy: {name} was not resolved to this address"),
            Self::NoName => f.write_str("egress proxy: the connection names no host"),
            Self::NotHttp(what) => write!(f, "egress proxy: {what}"),
            Self::Placeholder(name) => {
                write!(f, "secret {name}: its placeholder was sent where it may not be used")
            }
        }
    }
}

/// Whether a flow or name is allowed, and which rule decided.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// The answer.
    pub allowed: bool,
    /// Why.
    pub rule: Rule,
}

impl Verdict {
    /// An allowed flow or name.
    pub fn allow(rule: Rule) -> Self {
        Self { allowed: true, rule }
    }

    /// A refused flow or name.
    pub fn refuse(rule: Rule) -> Self {
        Self { allowed: false, rule }
    }
}

impl Policy {
    /// Decides about a flow to an address outside the workspaces. With `egress: proxy` only TCP passes, except to
    /// `allow_cidrs`: the proxy cannot tell which host another protocol is for. What TCP connections say is checked later.
    pub fn verdict(&self, flow: &Flow<'_>) -> Verdict {
        let verdict = self.address_verdict(flow);
        let is_unchecked = self.egress == Egress::Proxy && flow.protocol != Protocol::Tcp;
        if is_unchecked && verdict.allowed && !matches!(verdict.rule, Rule::AllowCidr(_)) {
            return Verdict::refuse(Rule::NotHttp("only TCP passes, except to allow_cidrs"));
        }
        verdict
    }

    fn address_verdict(&self, flow: &Flow<'_>) -> Verdict {
        let (address, opened) = match self.reachable(&flow.destination) {
            Ok(found) => found,
            Err(rule) => return Verdict::refuse(rule),
        };
        let usable: Vec<&String> =
            flow.destination.names.iter().filter(|name| self.denied(name).is_none()).collect();
        if let (true, Some(first)) = (usable.is_empty(), flow.destination.names.first()) {
            let pattern = self.denied(first).map(DomainPattern::to_string).unwrap_or_default();
            return Verdict::refuse(Rule::DenyDomain(pattern));
        }
        if self.is_other_resolver(address, flow.port, &usable) {
            return Verdict::refuse(Rule::OtherResolver);
        }
        if let Some(range) = opened {
            return Verdict::allow(Rule::AllowCidr(range));
        }
        if !self.has_lists() {
            return Verdict::allow(Rule::InternetOn);
        }
        let listed = self.allow_cidrs.iter().flatten().find(|range| range.contains(address));
        if let Some(range) = listed {
            return Verdict::allow(Rule::AllowCidr(range.to_string()));
        }
        match usable.iter().find_map(|name| self.listed(name)) {
            Some(pattern) => Verdict::allow(Rule::AllowDomain(pattern.to_string())),
            None => Verdict::refuse(Rule::NotListed),
        }
    }

    /// Decides whether a name (in normal form) may be resolved.
    pub fn name_verdict(&self, name: &str) -> Verdict {
        if !self.allow_internet {
            return Verdict::refuse(Rule::InternetOff);
        }
        if let Some(pattern) = self.denied(name) {
            return Verdict::refuse(Rule::DenyDomain(pattern.to_string()));
        }
        let named = self.allow_domains.iter().flatten().any(|pattern| pattern.names(name));
        if resolvers::is_resolver_name(name) && !named {
            return Verdict::refuse(Rule::OtherResolver);
        }
        if !self.has_lists() {
            return Verdict::allow(Rule::InternetOn);
        }
        match self.listed(name) {
            Some(pattern) => Verdict::allow(Rule::AllowDomain(pattern.to_string())),
            None => Verdict::refuse(Rule::NotListed),
        }
    }

    /// Decides whether an address may appear in the answer for a name that is allowed: a public name must not lead to a
    /// closed address (DNS rebinding).
    pub fn answer_verdict(&self, destination: &Destination<'_>) -> Verdict {
        match self.reachable(destination) {
            Ok(_) => Verdict::allow(Rule::InternetOn),
            Err(rule) => Verdict::refuse(rule),
        }
    }

    /// Decides about a flow from this workspace to another.
    pub fn neighbour_verdict(
        &self,
        neighbour: &Self,
        address: Ipv4Addr,
        port: u16,
        protocol: Protocol,
    ) -> Verdict {
        if let Some(range) = self.deny_cidrs.iter().find(|range| range.contains(address)) {
            return Verdict::refuse(Rule::DenyCidr(range.to_string()));
        }
        if !self.allow_inter_vm || !neighbour.allow_inter_vm {
            return Verdict::refuse(Rule::InterVmOff);
        }
        let Some(group) = self.groups.intersection(&neighbour.groups).next() else {
            return Verdict::refuse(Rule::NoSharedGroup);
        };
        let open = match &neighbour.allowed_ports {
            None => true,
            Some(ports) => protocol == Protocol::Tcp && ports.contains(&port),
        };
        if !open {
            return Verdict::refuse(Rule::PortNotAllowed);
        }
        Verdict::allow(Rule::Group(group.clone()))
    }

    /// Whether an address can be reached at all, leaving lists and names aside. Says which entry of `allow_cidrs` opened
    /// it, if it is closed by default.
    fn reachable(&self, destination: &Destination<'_>) -> Result<(Ipv4Addr, Option<String>), Rule> {
        let Some(address) = embedded_ipv4(destination.address) else {
            return Err(Rule::Ipv6Off);
        };
        let closed = ClosedRange::of(address);
        if let Some((kind, _)) = closed.filter(|(kind, _)| kind.is_never_reachable()) {
            return Err(Rule::Closed(kind));
        }
        if destination.address.is_ipv6() {
            return Err(Rule::Ipv6Off);
        }
        if !self.allow_internet {
            return Err(Rule::InternetOff);
        }
        if let Some(range) = self.deny_cidrs.iter().find(|range| range.contains(address)) {
            return Err(Rule::DenyCidr(range.to_string()));
        }
        let mut listed = self.allow_cidrs.iter().flatten().filter(|range| range.contains(address));
        if destination.is_host {
            let named = listed.find(|range| range.is_exactly(address));
            return named.map(|range| (address, Some(range.to_string()))).ok_or(Rule::HostAddress);
        }
        let Some((kind, closed)) = closed else {
            return Ok((address, None));
        };
        let named = listed.find(|range| range.is_within(&closed));
        named.map(|range| (address, Some(range.to_string()))).ok_or(Rule::Closed(kind))
    }

    fn is_other_resolver(&self, address: Ipv4Addr, port: u16, names: &[&String]) -> bool {
        let asked = resolvers::PORTS.contains(&port) || resolvers::is_resolver_address(address);
        let named_address = self.allow_cidrs.iter().flatten().any(|range| range.is_exactly(address));
        let named = |name: &&String| self.allow_domains.iter().flatten().any(|pattern| pattern.names(name));
        asked && !named_address && !names.iter().any(named)
    }

    pub(super) fn has_lists(&self) -> bool {
        self.allow_domains.is_some() || self.allow_cidrs.is_some()
    }

    pub(super) fn denied(&self, name: &str) -> Option<&DomainPattern> {
        self.deny_domains.iter().find(|pattern| pattern.matches(name))
    }

    pub(super) fn listed(&self, name: &str) -> Option<&DomainPattern> {
        self.allow_domains.iter().flatten().find(|pattern| pattern.matches(name))
    }
}
