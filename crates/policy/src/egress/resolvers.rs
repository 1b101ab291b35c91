//! Public resolvers. A guest that asked one of them, by DNS over TLS or HTTPS, would get around the policy on names, so
//! they are closed unless the policy names them.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

/// Ports on which a resolver is asked, whatever its address.
pub(super) const PORTS: [u16; 2] = [53, 853];

/// Whether a name is a public DNS-over-HTTPS resolver's, or a browser's question whether it may use one.
pub(super) fn is_resolver_name(name: &str) -> bool {
    let covers =
        |host: &str| name == host || name.strip_suffix(host).is_some_and(|front| front.ends_with('.'));
    NAMES.iter().any(|host| covers(host))
}

/// Whether an address is a public resolver's.
pub(super) fn is_resolver_address(address: Ipv4Addr) -> bool {
    ranges().any(|range| range.contains(&address))
}

/// The addresses of public resolvers.
pub(super) fn ranges() -> impl Iterator<Item = Ipv4Net> {
    ADDRESSES.iter().map(|&(base, prefix)| Ipv4Net::new_assert(base, prefix))
}

const NAMES: &[&str] = &[
    "cloudflare-dns.com",
    "one.one.one.one",
    "dns.google",
    "dns.google.com",
    "dns64.dns.google",
    "dns.quad9.net",
    "dns9.quad9.net",
    "dns10.quad9.net",
    "dns11.quad9.net",
    "doh.opendns.com",
    "doh.familyshield.opendns.com",
    "dns.umbrella.com",
    "dns.adguard.com",
    "dns.adguard-dns.com",
    "unfiltered.adguard-dns.com",
    "family.adguard-dns.com",
    "doh.cleanbrowsing.org",
    "dns.nextdns.io",
    "dns.controld.com",
    "freedns.controld.com",
    "doh.mullvad.net",
    "dns.mullvad.net",
    "doh.dns.sb",
    "dns.alidns.com",
    "doh.pub",
    "dns.pub",
    "doh.360.cn",
    "dns.switch.ch",
    "doh.libredns.gr",
    "doh.applied-privacy.net",
    "mozilla.cloudflare-dns.com",
    "use-application-dns.net",
    "mask.icloud.com",
    "mask-h2.icloud.com",
    "resolver.arpa",
];

const ADDRESSES: &[(Ipv4Addr, u8)] = &[
    (Ipv4Addr::new(1, 0, 0, 1), 32),
    (Ipv4Addr::new(1, 0, 0, 2), 31),
    (Ipv4Addr::new(1, 1, 1, 1), 32),
    (Ipv4Addr::new(1, 1, 1, 2), 31),
    (Ipv4Addr::new(1, 12, 12, 12), 32),
    (Ipv4Addr::new(8, 8, 4, 4), 32),
    (Ipv4Addr::new(8, 8, 8, 8), 32),
    (Ipv4Addr::new(9, 9, 9, 8), 29),
    (Ipv4Addr::new(45, 11, 45, 11), 32),
    (Ipv4Addr::new(45, 90, 28, 0), 24),
    (Ipv4Addr::new(45, 90, 30, 0), 24),
    (Ipv4Addr::new(76, 76, 2, 0), 24),
    (Ipv4Addr::new(76, 76, 10, 0), 24),
    (Ipv4Addr::new(77, 88, 8, 0), 24),
    (Ipv4Addr::new(94, 140, 14, 0), 24),
    (Ipv4Addr::new(94, 140, 15, 0), 24),
    (Ipv4Addr::new(104, 16, 248, 249), 32),
    (Ipv4Addr::new(104, 16, 249, 249), 32),
    (Ipv4Addr::new(119, 29, 29, 29), 32),
    (Ipv4Addr::new(120, 53, 53, 53), 32),
    (Ipv4Addr::new(146, 112, 41, 0), 24),
    (Ipv4Addr::new(149, 112, 112, 0), 24),
    (Ipv4Addr::new(185, 222, 222, 222), 32),
    (Ipv4Addr::new(185, 228, 168, 0), 23),
    (Ipv4Addr::new(194, 242, 2, 0), 24),
    (Ipv4Addr::new(208, 67, 220, 0), 24),
    (Ipv4Addr::new(208, 67, 222, 0), 24),
    (Ipv4Addr::new(223, 5, 5, 5), 32),
    (Ipv4Addr::new(223, 6, 6, 6), 32),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_known_by_name_and_by_address() {
        assert!(is_resolver_name("dns.google"));
        assert!(is_resolver_name("abc123.dns.nextdns.io"));
        assert!(!is_resolver_name("google"));
        assert!(!is_resolver_name("mydns.google"));
        assert!(is_resolver_address(Ipv4Addr::new(9, 9, 9, 9)));
        assert!(!is_resolver_address(Ipv4Addr::new(9, 9, 8, 9)));
    }
}
