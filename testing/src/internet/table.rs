//! Who may reach what: the table that every back end of the network must fulfil, checked by packets.

use std::net::Ipv4Addr;

use agentiso_core::NetworkRules;

use super::places::{CARRIER, GIT, HOST, HOST_PRIVATE, LINK_LOCAL, METADATA, OTHER, PRIVATE, RESOLVER, WEB};

/// The gateway of the default pool.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// An address of the default pool that no workspace of the table has.
pub const VACANT: Ipv4Addr = Ipv4Addr::new(10, 99, 200, 200);

/// A destination.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum To {
    /// An address.
    Address(Ipv4Addr),
    /// A name, which is resolved first.
    Name(&'static str),
    /// A workspace of the table. It listens on TCP ports 22 and 80, and echoes datagrams on port 7.
    Workspace(&'static str),
}

/// How it is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum How {
    /// A connection to a port.
    Tcp(u16),
    /// A datagram to a port.
    Udp(u16),
    /// An echo request.
    Ping,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The workspace that tries.
    pub from: &'static str,
    /// What it tries to reach.
    pub to: To,
    /// How.
    pub how: How,
    /// `allowed: ` or `refused: ` and the rule that decides, as the log shows it.
    pub expected: &'static str,
}

impl Row {
    /// Whether the destination can be reached.
    pub fn is_allowed(&self) -> bool {
        self.expected.starts_with("allowed: ")
    }

    /// The rule that decides.
    pub fn rule(&self) -> &'static str {
        self.expected.split_once(": ").map_or("", |(_, rule)| rule)
    }
}

/// The workspaces: those that use the internet, and two groups.
pub fn workspaces() -> Vec<(&'static str, NetworkRules)> {
    let list = |entries: &[&str]| entries.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>();
    let online = || NetworkRules { allow_internet: true, ..NetworkRules::default() };
    let grouped = |groups: &[&str]| NetworkRules {
        allow_inter_vm: true,
        groups: list(groups),
        ..NetworkRules::default()
    };
    vec![
        ("off", NetworkRules::default()),
        ("open", online()),
        (
            "listed",
            NetworkRules {
                allow_domains: Some(list(&[
                    "web.example",
                    "*.tunnel.example",
                    "alias.example",
                    "rebind-private.example",
                ])),
                ..online()
            },
        ),
        (
            "ranges",
            NetworkRules {
                allow_cidrs: Some(list(&["10.1.0.0/16", "93.184.216.34", "198.41.0.1"])),
                ..online()
            },
        ),
        (
            "denying",
            NetworkRules {
                deny_domains: list(&["other.example"]),
                deny_cidrs: list(&["93.184.217.0/24"]),
                ..online()
            },
        ),
        ("blue-1", grouped(&["blue"])),
        ("blue-2", grouped(&["blue"])),
        ("green-1", NetworkRules { allowed_ports: Some(vec![80]), ..grouped(&["green"]) }),
        ("green-2", grouped(&["green"])),
        ("both", grouped(&["blue", "green"])),
    ]
}

/// The table. An address without a name comes before the names that lead to it: a resolved address stays open for the
/// workspace that resolved it.
pub const TABLE: &[Row] = &[
    // Nothing by default.
    row("off", To::Address(WEB), How::Tcp(80), "refused: allow_internet: false"),
    row("off", To::Name("web.example"), How::Tcp(80), "refused: allow_internet: false"),
    row("off", To::Address(WEB), How::Udp(7), "refused: allow_internet: false"),
    row("off", To::Address(WEB), How::Ping, "refused: allow_internet: false"),
    row("off", To::Address(PRIVATE), How::Tcp(80), "refused: allow_internet: false"),
    row(
        "off",
        To::Address(Ipv4Addr::LOCALHOST),
        How::Tcp(80),
        "refused: closed by default: a loopback address",
    ),
    row("off", To::Workspace("blue-1"), How::Tcp(80), "refused: allow_inter_vm: false"),
    // The internet, but nothing that is near.
    row("open", To::Address(WEB), How::Tcp(80), "allowed: allow_internet: true"),
    row("open", To::Address(WEB), How::Tcp(443), "allowed: allow_internet: true"),
    row("open", To::Address(WEB), How::Udp(7), "allowed: allow_internet: true"),
    row("open", To::Address(WEB), How::Ping, "allowed: allow_internet: true"),
    row("open", To::Name("other.example"), How::Tcp(80), "allowed: allow_internet: true"),
    row("open", To::Name("aliases.example"), How::Tcp(80), "allowed: allow_internet: true"),
    row("open", To::Name("mixed.example"), How::Tcp(80), "allowed: allow_internet: true"),
    row("open", To::Address(PRIVATE), How::Tcp(80), "refused: closed by default: a private address"),
    row("open", To::Address(PRIVATE), How::Udp(7), "refused: closed by default: a private address"),
    row("open", To::Address(PRIVATE), How::Ping, "refused: closed by default: a private address"),
    row(
        "open",
        To::Address(CARRIER),
        How::Tcp(80),
        "refused: closed by default: a carrier-grade NAT address",
    ),
    row("open", To::Address(LINK_LOCAL), How::Tcp(80), "refused: closed by default: a link-local address"),
    row("open", To::Address(METADATA), How::Tcp(80), "refused: closed by default: a cloud metadata address"),
    row("open", To::Address(HOST), How::Tcp(80), "refused: closed by default: an address of the host"),
    row("open", To::Address(HOST), How::Ping, "refused: closed by default: an address of the host"),
    row(
        "open",
        To::Address(HOST_PRIVATE),
        How::Tcp(80),
        "refused: closed by default: an address of the host",
    ),
    row(
        "open",
        To::Address(Ipv4Addr::LOCALHOST),
        How::Tcp(80),
        "refused: closed by default: a loopback address",
    ),
    row(
        "open",
        To::Name("rebind-private.example"),
        How::Tcp(80),
        "refused: closed by default: a private address",
    ),
    row(
        "open",
        To::Name("rebind-alias.example"),
        How::Tcp(80),
        "refused: closed by default: a private address",
    ),
    row(
        "open",
        To::Name("rebind-loopback.example"),
        How::Tcp(80),
        "refused: closed by default: a loopback address",
    ),
    row(
        "open",
        To::Name("rebind-metadata.example"),
        How::Tcp(80),
        "refused: closed by default: a cloud metadata address",
    ),
    row(
        "open",
        To::Name("rebind-host.example"),
        How::Tcp(80),
        "refused: closed by default: an address of the host",
    ),
    row("open", To::Name("rebind-workspace.example"), How::Tcp(80), "refused: no workspace has this address"),
    // No other resolver.
    row("open", To::Address(RESOLVER), How::Udp(53), "refused: closed by default: another resolver"),
    row("open", To::Address(RESOLVER), How::Tcp(53), "refused: closed by default: another resolver"),
    row("open", To::Address(RESOLVER), How::Tcp(443), "refused: closed by default: another resolver"),
    row("open", To::Address(WEB), How::Tcp(853), "refused: closed by default: another resolver"),
    row("open", To::Address(WEB), How::Udp(853), "refused: closed by default: another resolver"),
    row("open", To::Name("dns.google"), How::Tcp(443), "refused: closed by default: another resolver"),
    // The gateway has a resolver and nothing else.
    row("open", To::Address(GATEWAY), How::Tcp(22), "refused: gateway: no service on this port"),
    row("open", To::Address(GATEWAY), How::Tcp(80), "refused: gateway: no service on this port"),
    row("open", To::Address(GATEWAY), How::Udp(7), "refused: gateway: no service on this port"),
    // Only what is listed.
    row("listed", To::Address(WEB), How::Tcp(80), "refused: not in allow_domains or allow_cidrs"),
    row("listed", To::Address(OTHER), How::Tcp(80), "refused: not in allow_domains or allow_cidrs"),
    row("listed", To::Address(OTHER), How::Udp(7), "refused: not in allow_domains or allow_cidrs"),
    row("listed", To::Name("other.example"), How::Tcp(80), "refused: not in allow_domains or allow_cidrs"),
    row(
        "listed",
        To::Name("rebind-private.example"),
        How::Tcp(80),
        "refused: closed by default: a private address",
    ),
    row(
        "listed",
        To::Name("a.tunnel.example"),
        How::Tcp(853),
        "refused: closed by default: another resolver",
    ),
    row("listed", To::Name("a.tunnel.example"), How::Tcp(443), "allowed: allow_domains: *.tunnel.example"),
    row("listed", To::Name("web.example"), How::Tcp(80), "allowed: allow_domains: web.example"),
    row("ranges", To::Address(WEB), How::Tcp(80), "allowed: allow_cidrs: 93.184.216.34/32"),
    row("ranges", To::Address(PRIVATE), How::Tcp(80), "allowed: allow_cidrs: 10.1.0.0/16"),
    row("ranges", To::Address(PRIVATE), How::Udp(7), "allowed: allow_cidrs: 10.1.0.0/16"),
    row("ranges", To::Address(HOST), How::Tcp(80), "allowed: allow_cidrs: 198.41.0.1/32"),
    row("ranges", To::Address(OTHER), How::Tcp(80), "refused: not in allow_domains or allow_cidrs"),
    row("ranges", To::Name("web.example"), How::Tcp(80), "refused: not in allow_domains or allow_cidrs"),
    row(
        "ranges",
        To::Address(METADATA),
        How::Tcp(80),
        "refused: closed by default: a cloud metadata address",
    ),
    row("denying", To::Address(WEB), How::Tcp(80), "allowed: allow_internet: true"),
    row("denying", To::Address(GIT), How::Tcp(80), "refused: deny_cidrs: 93.184.217.0/24"),
    row("denying", To::Name("git.example"), How::Tcp(80), "refused: deny_cidrs: 93.184.217.0/24"),
    row("denying", To::Name("other.example"), How::Tcp(80), "refused: deny_domains: other.example"),
    // Neighbours of the same group, on the ports they open.
    row("blue-1", To::Workspace("blue-2"), How::Tcp(80), "allowed: allow_inter_vm: group blue"),
    row("blue-1", To::Workspace("blue-2"), How::Udp(7), "allowed: allow_inter_vm: group blue"),
    row("blue-1", To::Workspace("blue-2"), How::Ping, "allowed: allow_inter_vm: group blue"),
    row("blue-1", To::Workspace("green-1"), How::Tcp(80), "refused: allow_inter_vm: no shared group"),
    row("blue-1", To::Workspace("open"), How::Tcp(80), "refused: allow_inter_vm: false"),
    row("blue-1", To::Workspace("off"), How::Ping, "refused: allow_inter_vm: false"),
    row("blue-1", To::Address(WEB), How::Tcp(80), "refused: allow_internet: false"),
    row("blue-1", To::Address(VACANT), How::Tcp(80), "refused: no workspace has this address"),
    row("green-2", To::Workspace("green-1"), How::Tcp(80), "allowed: allow_inter_vm: group green"),
    row("green-2", To::Workspace("green-1"), How::Tcp(22), "refused: allowed_ports: not listed"),
    row("green-2", To::Workspace("green-1"), How::Udp(7), "refused: allowed_ports: not listed"),
    row("green-1", To::Workspace("green-2"), How::Tcp(22), "allowed: allow_inter_vm: group green"),
    row("green-2", To::Workspace("blue-2"), How::Ping, "refused: allow_inter_vm: no shared group"),
    row("both", To::Workspace("blue-2"), How::Tcp(80), "allowed: allow_inter_vm: group blue"),
    row("both", To::Workspace("green-2"), How::Tcp(80), "allowed: allow_inter_vm: group green"),
    row("open", To::Workspace("blue-1"), How::Tcp(80), "refused: allow_inter_vm: false"),
];

const fn row(from: &'static str, to: To, how: How, expected: &'static str) -> Row {
    Row { from, to, how, expected }
}
