//! Names of queries, in the form that policies are compared with.

use std::net::Ipv4Addr;

use hickory_proto::rr::Name;

use agentiso_policy::egress::normalise;

/// The text of a name, or nothing if a label has a character that no host name has. An escaped dot inside a label would
/// otherwise look like the border between two.
pub(super) fn text(name: &Name) -> Option<String> {
    let is_plain =
        |label: &[u8]| label.iter().all(|&byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    name.iter().all(is_plain).then(|| normalise(&name.to_ascii()))
}

/// The address whose name is asked for, if this is a name below `in-addr.arpa`.
pub(super) fn reverse_address(name: &str) -> Option<Ipv4Addr> {
    let labels: Vec<&str> = name.strip_suffix(".in-addr.arpa")?.split('.').collect();
    let [d, c, b, a] = labels.as_slice() else { return None };
    Some(Ipv4Addr::new(a.parse().ok()?, b.parse().ok()?, c.parse().ok()?, d.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_comparable_and_odd_labels_are_refused() {
        assert_eq!(text(&Name::from_ascii("WWW.Example.COM.").unwrap()).as_deref(), Some("www.example.com"));
        assert_eq!(
            text(&Name::from_ascii("_dns.resolver.arpa").unwrap()).as_deref(),
            Some("_dns.resolver.arpa")
        );
        let disguised = Name::from_labels([&b"x.example"[..], b"com"]).unwrap();
        assert_eq!(text(&disguised), None, "a dot inside a label");
        assert_eq!(text(&Name::from_labels([&b"a b"[..]]).unwrap()), None);
    }

    #[test]
    fn reverse_names_are_read() {
        assert_eq!(reverse_address("4.3.2.1.in-addr.arpa"), Some(Ipv4Addr::new(1, 2, 3, 4)));
        assert_eq!(reverse_address("3.2.1.in-addr.arpa"), None);
        assert_eq!(reverse_address("x.3.2.1.in-addr.arpa"), None);
        assert_eq!(reverse_address("example.com"), None);
    }
}
