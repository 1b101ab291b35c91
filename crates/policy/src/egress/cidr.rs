//! IPv4 ranges of a policy.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Net};

use super::Reason;

/// An IPv4 range without bits behind its prefix. A single address is a `/32`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Cidr(Ipv4Net);

impl Cidr {
    /// Checks a range or address as a user writes it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.is_empty() {
            return Err(Reason::Empty);
        }
        let range = match (text.parse::<IpNet>(), text.parse::<IpAddr>()) {
            (Ok(range), _) => range,
            (_, Ok(address)) => IpNet::from(address),
            _ => return Err(Reason::NotACidr),
        };
        let IpNet::V4(range) = range else {
            return Err(Reason::Ipv6);
        };
        if range != range.trunc() {
            return Err(Reason::HostBits(range.trunc().to_string()));
        }
        Ok(Self(range))
    }

    /// Whether an address lies in the range.
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        self.0.contains(&address)
    }

    /// The range.
    pub fn range(&self) -> Ipv4Net {
        self.0
    }

    /// The lowest address of the range.
    pub fn first(&self) -> Ipv4Addr {
        self.0.addr()
    }

    /// Whether the range is this one address.
    pub fn is_exactly(&self, address: Ipv4Addr) -> bool {
        self.0.prefix_len() == 32 && self.0.addr() == address
    }

    /// Whether the whole range lies in another.
    pub fn is_within(&self, other: &Ipv4Net) -> bool {
        other.contains(&self.0)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_range_of_one() {
        let one = Cidr::parse("192.0.2.7").unwrap();
        assert_eq!(one.to_string(), "192.0.2.7/32");
        assert!(one.is_exactly(Ipv4Addr::new(192, 0, 2, 7)));
        assert!(!Cidr::parse("192.0.2.0/24").unwrap().is_exactly(Ipv4Addr::new(192, 0, 2, 0)));
    }

    #[test]
    fn malformed_ranges_are_refused_with_the_reason() {
        let refused = |text| Cidr::parse(text).unwrap_err();
        assert_eq!(refused(""), Reason::Empty);
        for text in ["10.0.0.0/33", "10.0.0/8", "example.com", "10.0.0.0-10.0.0.9", "010.0.0.1"] {
            assert_eq!(refused(text), Reason::NotACidr, "{text}");
        }
        assert_eq!(refused("10.0.0.1/8"), Reason::HostBits("10.0.0.0/8".to_owned()));
        assert_eq!(refused("2001:db8::/32"), Reason::Ipv6);
        assert_eq!(refused("::ffff:10.0.0.1"), Reason::Ipv6);
    }
}
