//! Address ranges that are closed unless a policy names them, and those that can never be opened.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

/// Why a range is closed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedRange {
    /// "This network": 0.0.0.0/8.
    Unspecified,
    /// The host's loopback.
    Loopback,
    /// Private networks (RFC 1918).
    Private,
    /// Carrier-grade NAT.
    Carrier,
    /// Link-local addresses.
    LinkLocal,
    /// Where cloud providers serve credentials.
    Metadata,
    /// Documentation, benchmarking, protocol assignments.
    Special,
    /// Multicast.
    Multicast,
    /// Reserved addresses and broadcast.
    Reserved,
}

impl ClosedRange {
    /// Whether no policy can open it: loopback belongs to the host, and the others are no single destination.
    pub fn is_never_reachable(self) -> bool {
        matches!(self, Self::Unspecified | Self::Loopback | Self::Multicast | Self::Reserved)
    }

    /// The closed range an address lies in. If there are several, the smallest one counts.
    pub fn of(address: Ipv4Addr) -> Option<(Self, Ipv4Net)> {
        all().filter(|(_, range)| range.contains(&address)).max_by_key(|(_, range)| range.prefix_len())
    }
}

impl fmt::Display for ClosedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "an unspecified address",
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::Carrier => "a carrier-grade NAT address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud metadata address",
            Self::Special => "a special-purpose address",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
        })
    }
}

const RANGES: &[(ClosedRange, Ipv4Addr, u8)] = &[
    (ClosedRange::Unspecified, Ipv4Addr::new(0, 0, 0, 0), 8),
    (ClosedRange::Private, Ipv4Addr::new(10, 0, 0, 0), 8),
    (ClosedRange::Carrier, Ipv4Addr::new(100, 64, 0, 0), 10),
    (ClosedRange::Metadata, Ipv4Addr::new(100, 100, 100, 200), 32), // Alibaba
    (ClosedRange::Loopback, Ipv4Addr::new(127, 0, 0, 0), 8),
    (ClosedRange::Metadata, Ipv4Addr::new(168, 63, 129, 16), 32), // Azure
    (ClosedRange::LinkLocal, Ipv4Addr::new(169, 254, 0, 0), 16),
    (ClosedRange::Metadata, Ipv4Addr::new(169, 254, 169, 254), 32), // most providers
    (ClosedRange::Metadata, Ipv4Addr::new(169, 254, 170, 2), 32),   // AWS, for containers
    (ClosedRange::Private, Ipv4Addr::new(172, 16, 0, 0), 12),
    (ClosedRange::Special, Ipv4Addr::new(192, 0, 0, 0), 24),
    (ClosedRange::Metadata, Ipv4Addr::new(192, 0, 0, 192), 32), // Oracle
    (ClosedRange::Special, Ipv4Addr::new(192, 0, 2, 0), 24),
    (ClosedRange::Special, Ipv4Addr::new(192, 88, 99, 0), 24),
    (ClosedRange::Private, Ipv4Addr::new(192, 168, 0, 0), 16),
    (ClosedRange::Special, Ipv4Addr::new(198, 18, 0, 0), 15),
    (ClosedRange::Special, Ipv4Addr::new(198, 51, 100, 0), 24),
    (ClosedRange::Special, Ipv4Addr::new(203, 0, 113, 0), 24),
    (ClosedRange::Multicast, Ipv4Addr::new(224, 0, 0, 0), 4),
    (ClosedRange::Reserved, Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Every closed range.
pub(super) fn all() -> impl Iterator<Item = (ClosedRange, Ipv4Net)> {
    RANGES.iter().map(|&(kind, base, prefix)| (kind, Ipv4Net::new_assert(base, prefix)))
}

/// The IPv4 address that an address leads to, including the IPv6 forms that carry one: mapped, compatible, NAT64
/// and 6to4.
pub(super) fn embedded_ipv4(address: IpAddr) -> Option<Ipv4Addr> {
    let v6 = match address {
        IpAddr::V4(v4) => return Some(v4),
        IpAddr::V6(v6) => v6,
    };
    let low = Ipv4Addr::from_bits((v6.to_bits() & u128::from(u32::MAX)) as u32);
    let segments = v6.segments();
    match segments {
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(low),
        [0, 0, 0, 0, 0, 0, ..] if v6 != Ipv6Addr::UNSPECIFIED && v6 != Ipv6Addr::LOCALHOST => Some(low),
        [0x2002, high, lower, ..] => Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(lower))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_ranges_are_recognised_and_the_smallest_one_counts() {
        let kind = |text: &str| ClosedRange::of(text.parse().unwrap()).map(|(kind, _)| kind);
        assert_eq!(kind("10.1.2.3"), Some(ClosedRange::Private));
        assert_eq!(kind("172.31.255.255"), Some(ClosedRange::Private));
        assert_eq!(kind("172.32.0.0"), None);
        assert_eq!(kind("100.127.0.1"), Some(ClosedRange::Carrier));
        assert_eq!(kind("100.100.100.200"), Some(ClosedRange::Metadata));
        assert_eq!(kind("169.254.169.254"), Some(ClosedRange::Metadata));
        assert_eq!(kind("169.254.1.1"), Some(ClosedRange::LinkLocal));
        assert_eq!(kind("168.63.129.16"), Some(ClosedRange::Metadata));
        assert_eq!(kind("127.0.0.53"), Some(ClosedRange::Loopback));
        assert_eq!(kind("0.0.0.0"), Some(ClosedRange::Unspecified));
        assert_eq!(kind("224.0.0.251"), Some(ClosedRange::Multicast));
        assert_eq!(kind("255.255.255.255"), Some(ClosedRange::Reserved));
        assert_eq!(kind("93.184.216.34"), None);
    }

    #[test]
    fn ipv6_addresses_that_carry_an_ipv4_address_are_seen_through() {
        let embedded = |text: &str| embedded_ipv4(text.parse().unwrap()).map(|v4| v4.to_string());
        assert_eq!(embedded("::ffff:127.0.0.1").as_deref(), Some("127.0.0.1"));
        assert_eq!(embedded("::10.0.0.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(embedded("64:ff9b::169.254.169.254").as_deref(), Some("169.254.169.254"));
        assert_eq!(embedded("2002:0a00:0001::").as_deref(), Some("10.0.0.1"));
        assert_eq!(embedded("2001:db8::1"), None);
        assert_eq!(embedded("::1"), None);
        assert_eq!(embedded("::"), None);
    }
}
