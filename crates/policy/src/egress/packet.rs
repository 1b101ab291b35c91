//! A policy as a packet filter needs it: address ranges in a fixed order, without names.
//!
//! A filter that refuses in this order, and allows what is left, decides like [`Policy::verdict`]:
//!
//! 1. ranges that are never reachable, and everything if `internet` is off,
//! 2. `denied`,
//! 3. the host's addresses and closed single addresses unless in `single`; closed ranges unless in `opened`,
//! 4. addresses whose every name is denied,
//! 5. other resolvers unless in `single` or pinned to an exact name,
//! 6. with `listed`: everything that is neither listed nor pinned to a listed name.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::{Cidr, ClosedRange, Policy, ranges, resolvers};

/// What a policy says about addresses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PacketRules {
    /// Whether any address outside the workspaces can be reached.
    pub internet: bool,
    /// Refused first.
    pub denied: Vec<Ipv4Net>,
    /// Addresses that the policy names one by one.
    pub single: Vec<Ipv4Addr>,
    /// Ranges that open closed ranges.
    pub opened: Vec<Ipv4Net>,
    /// If given, nothing else is reachable, but for pinned names.
    pub listed: Option<Vec<Ipv4Net>>,
}

/// What the names of an address say about it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pinned {
    /// Every name is denied.
    pub denied: bool,
    /// One of the names is listed.
    pub listed: bool,
    /// The policy names one of the names exactly, so that it may be a resolver.
    pub exact: bool,
}

/// What one workspace says about others.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NeighbourRules<'a> {
    /// Its groups; none if it takes part in no traffic between workspaces.
    pub groups: Option<&'a BTreeSet<String>>,
    /// The TCP ports others can reach, if they are restricted.
    pub ports: Option<&'a BTreeSet<u16>>,
}

impl Policy {
    /// The policy about addresses.
    pub fn packet_rules(&self) -> PacketRules {
        let allowed = || self.allow_cidrs.iter().flatten().map(Cidr::range);
        let (wide, _) = closed();
        PacketRules {
            internet: self.allow_internet,
            denied: self.deny_cidrs.iter().map(Cidr::range).collect(),
            single: allowed().filter(|range| range.prefix_len() == 32).map(|range| range.addr()).collect(),
            opened: allowed().filter(|range| wide.iter().any(|wide| wide.contains(range))).collect(),
            listed: self.has_lists().then(|| allowed().collect()),
        }
    }

    /// What the names of an address, in normal form, say about it.
    pub fn pinned(&self, names: &[String]) -> Pinned {
        let usable: Vec<&String> = names.iter().filter(|name| self.denied(name).is_none()).collect();
        let is_exact =
            |name: &&String| self.allow_domains.iter().flatten().any(|pattern| pattern.names(name));
        Pinned {
            denied: usable.is_empty() && !names.is_empty(),
            listed: usable.iter().any(|name| self.listed(name).is_some()),
            exact: usable.iter().any(is_exact),
        }
    }

    /// The policy about other workspaces.
    pub fn neighbour_rules(&self) -> NeighbourRules<'_> {
        NeighbourRules {
            groups: self.allow_inter_vm.then_some(&self.groups),
            ports: self.allowed_ports.as_ref(),
        }
    }
}

/// Ranges that no policy opens.
pub fn never_reachable() -> Vec<Ipv4Net> {
    ranges::all().filter(|(kind, _)| kind.is_never_reachable()).map(|(_, range)| range).collect()
}

/// Closed ranges, and closed single addresses.
pub fn closed() -> (Vec<Ipv4Net>, Vec<Ipv4Addr>) {
    let all: Vec<(ClosedRange, Ipv4Net)> =
        ranges::all().filter(|(kind, _)| !kind.is_never_reachable()).collect();
    let wide = all.iter().map(|(_, range)| *range).filter(|range| range.prefix_len() < 32).collect();
    let single = all.iter().map(|(_, range)| *range).filter(|range| range.prefix_len() == 32);
    (wide, single.map(|range| range.addr()).collect())
}

/// The addresses of public resolvers.
pub fn resolver_ranges() -> Vec<Ipv4Net> {
    resolvers::ranges().collect()
}

/// The ports on which resolvers are asked.
pub const RESOLVER_PORTS: [u16; 2] = resolvers::PORTS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_ranges_hold_no_other_but_single_addresses() {
        let (wide, _) = closed();
        for range in &wide {
            assert!(!wide.iter().any(|other| other != range && range.contains(other)), "{range}");
        }
        assert!(!wide.iter().any(|range| never_reachable().iter().any(|never| never.contains(range))));
    }
}
