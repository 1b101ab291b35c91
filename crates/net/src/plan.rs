//! The address plan: which addresses workspaces get.
//!
//! The pool is one IPv4 range. Its first address is the gateway, which every workspace sees as its router and resolver.
//! An address that the host has a route to is never given out: a guest that has it could not reach the real one.
//! Everything here is pure; the caller stores which address belongs to which workspace.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use agentiso_core::{Code, Explain};
use ipnet::Ipv4Net;

/// The pool that is used unless the configuration names another.
pub const DEFAULT_POOL: &str = "10.99.0.0/16";

/// The gateway's MAC address, the same for every workspace. Workspaces' own addresses start with another byte
/// (`WorkspaceId::mac`), so the two never collide.
pub const GATEWAY_MAC: [u8; 6] = [0x02, 0x61, 0x67, 0x77, 0x00, 0x01];

/// A pool needs room for the gateway, the broadcast address and some workspaces.
const MAX_PREFIX: u8 = 29;
/// A larger pool would only make an overlap with the host's networks likelier.
const MIN_PREFIX: u8 = 8;

/// Why a pool cannot be used, or has no address left.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// Not an IPv4 range.
    #[error("'{0}' is not an IPv4 range such as {DEFAULT_POOL}")]
    Malformed(String),
    /// Bits are set behind the prefix, so it is unclear which range is meant.
    #[error("'{given}' is an address within {meant}, not a range")]
    HostBits {
        /// What was given.
        given: String,
        /// The range it lies in.
        meant: Ipv4Net,
    },
    /// Too small or too large.
    #[error("the pool {0} must have a prefix between /{MIN_PREFIX} and /{MAX_PREFIX}")]
    Size(Ipv4Net),
    /// Addresses outside the private ranges belong to somebody.
    #[error(
        "the pool {0} is not in a private range (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10)"
    )]
    Public(Ipv4Net),
    /// The host has a route to the gateway's address.
    #[error("the pool {pool} overlaps {route}, which the host has a route to")]
    Overlap {
        /// The pool.
        pool: Ipv4Net,
        /// The route.
        route: Ipv4Net,
    },
    /// Every address is in use or routed by the host.
    #[error("the pool {0} has no free address left")]
    Exhausted(Ipv4Net),
}

impl Explain for PlanError {
    fn code(&self) -> Code {
        match self {
            Self::Overlap { .. } => Code::NetworkUnavailable,
            Self::Exhausted(_) => Code::QuotaExceeded,
            _ => Code::InvalidArgument,
        }
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Exhausted(_) => "remove workspaces, or set network.pool to a larger range".to_owned(),
            _ => "set network.pool to a private range that no network of the host uses".to_owned(),
        })
    }
}

/// A checked pool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pool(Ipv4Net);

impl Pool {
    /// Checks a range as the configuration writes it.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let range: Ipv4Net = text.parse().map_err(|_| PlanError::Malformed(text.to_owned()))?;
        if range != range.trunc() {
            return Err(PlanError::HostBits { given: text.to_owned(), meant: range.trunc() });
        }
        if !(MIN_PREFIX..=MAX_PREFIX).contains(&range.prefix_len()) {
            return Err(PlanError::Size(range));
        }
        if !private_ranges().iter().any(|private| private.contains(&range)) {
            return Err(PlanError::Public(range));
        }
        Ok(Self(range))
    }

    /// The whole range.
    pub fn range(&self) -> Ipv4Net {
        self.0
    }

    /// The address of the router and resolver, as workspaces see it.
    pub fn gateway(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.0.network().to_bits() | 1)
    }

    /// Checks that the host has no route to the gateway's address, and none that covers the whole pool.
    pub fn check(&self, routes: &[Ipv4Net]) -> Result<(), PlanError> {
        let covers = |route: &&Ipv4Net| route.contains(&self.gateway()) || route.contains(&self.0);
        match routes.iter().find(covers) {
            Some(&route) => Err(PlanError::Overlap { pool: self.0, route }),
            None => Ok(()),
        }
    }

    /// Picks the lowest address that is neither in use nor routed by the host.
    ///
    /// `routes` are the host's routes without the default route.
    pub fn allocate(&self, used: &BTreeSet<Ipv4Addr>, routes: &[Ipv4Net]) -> Result<Ipv4Addr, PlanError> {
        self.check(routes)?;
        let last = self.0.broadcast().to_bits() - 1;
        let mut candidate = self.gateway().to_bits() + 1;
        while candidate <= last {
            let address = Ipv4Addr::from_bits(candidate);
            // A routed range is stepped over as a whole: a pool may hold millions of addresses.
            if let Some(route) = routes.iter().find(|route| route.contains(&address)) {
                candidate = route.broadcast().to_bits().saturating_add(1);
            } else if used.contains(&address) {
                candidate += 1;
            } else {
                return Ok(address);
            }
        }
        Err(PlanError::Exhausted(self.0))
    }
}

fn private_ranges() -> [Ipv4Net; 4] {
    [
        Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
        Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
        Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
        Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> Ipv4Net {
        text.parse().unwrap()
    }

    #[test]
    fn the_default_pool_is_valid_and_its_gateway_is_the_first_address() {
        let pool = Pool::parse(DEFAULT_POOL).unwrap();
        assert_eq!(pool.gateway(), Ipv4Addr::new(10, 99, 0, 1));
        assert_eq!(pool.allocate(&BTreeSet::new(), &[]), Ok(Ipv4Addr::new(10, 99, 0, 2)));
    }

    #[test]
    fn a_pool_that_cannot_be_used_is_refused_with_the_reason() {
        let refused = |text| Pool::parse(text).unwrap_err().to_string();
        assert_eq!(refused("pool"), "'pool' is not an IPv4 range such as 10.99.0.0/16");
        assert_eq!(refused("10.99.0.5/16"), "'10.99.0.5/16' is an address within 10.99.0.0/16, not a range");
        assert_eq!(refused("10.99.0.0/30"), "the pool 10.99.0.0/30 must have a prefix between /8 and /29");
        assert!(refused("8.8.0.0/16").contains("not in a private range"));
        assert!(refused("fd00::/64").contains("not an IPv4 range"));
    }

    #[test]
    fn a_pool_the_host_routes_elsewhere_is_refused_and_the_route_is_named() {
        let pool = Pool::parse(DEFAULT_POOL).unwrap();
        let error = pool.allocate(&BTreeSet::new(), &[net("10.0.0.0/8")]).unwrap_err();
        assert_eq!(error, PlanError::Overlap { pool: pool.range(), route: net("10.0.0.0/8") });
        assert_eq!(error.code(), Code::NetworkUnavailable);
        assert!(error.remedy().unwrap().contains("network.pool"));
        assert!(pool.check(&[net("10.99.0.0/24")]).is_err(), "the gateway's address is routed");
    }

    #[test]
    fn a_route_into_a_part_of_the_pool_is_stepped_over() {
        let pool = Pool::parse("10.99.0.0/16").unwrap();
        let used = (2..=127).map(|last| Ipv4Addr::new(10, 99, 0, last)).collect();
        let routes = [net("10.99.0.128/25"), net("10.99.1.0/24"), net("192.168.1.0/24")];
        assert_eq!(pool.allocate(&used, &routes), Ok(Ipv4Addr::new(10, 99, 2, 0)));
    }

    #[test]
    fn a_full_pool_is_reported_as_full() {
        let pool = Pool::parse("10.99.0.0/29").unwrap();
        let mut used = BTreeSet::new();
        while let Ok(address) = pool.allocate(&used, &[]) {
            assert!(used.insert(address), "{address} was given out twice");
        }
        assert_eq!(used.len(), 5, "8 addresses less the network, the gateway and the broadcast address");
        assert_eq!(pool.allocate(&used, &[]), Err(PlanError::Exhausted(pool.range())));
        assert_eq!(PlanError::Exhausted(pool.range()).code(), Code::QuotaExceeded);
    }

    fn route() -> impl Strategy<Value = Ipv4Net> {
        (any::<u16>(), 17u8..=32).prop_map(|(low, prefix)| {
            Ipv4Net::new(Ipv4Addr::from_bits(0x0a63_0000 | u32::from(low)), prefix).unwrap().trunc()
        })
    }

    proptest! {
        #[test]
        fn an_allocated_address_is_in_the_pool_free_and_not_routed(
            lows in proptest::collection::btree_set(any::<u16>(), 0..200),
            routes in proptest::collection::vec(route(), 0..6),
        ) {
            let pool = Pool::parse(DEFAULT_POOL).unwrap();
            let used: BTreeSet<_> = lows.iter().map(|&low| Ipv4Addr::from_bits(0x0a63_0000 | u32::from(low))).collect();
            match pool.allocate(&used, &routes) {
                Ok(address) => {
                    prop_assert!(pool.range().contains(&address));
                    prop_assert!(!used.contains(&address));
                    prop_assert!(!routes.iter().any(|route| route.contains(&address)));
                    prop_assert!(![pool.gateway(), pool.range().network(), pool.range().broadcast()].contains(&address));
                }
                Err(PlanError::Overlap { .. }) => prop_assert!(pool.check(&routes).is_err()),
                Err(PlanError::Exhausted(_)) => {
                    let free = pool.range().hosts().skip(1).find(|address| {
                        !used.contains(address) && !routes.iter().any(|route| route.contains(address))
                    });
                    prop_assert_eq!(free, None);
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
