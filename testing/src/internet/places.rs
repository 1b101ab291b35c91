//! Who has which address and name.

use std::net::Ipv4Addr;

/// The host's address.
pub const HOST: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 1);
/// A second address of the host, in a private range.
pub const HOST_PRIVATE: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 1);
/// The host's router.
pub const ROUTER: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 2);
/// The host's resolver.
pub const NAMESERVER: Ipv4Addr = Ipv4Addr::new(198, 41, 1, 53);
/// A public web server, `web.example`.
pub const WEB: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);
/// Another public web server, `other.example`.
pub const OTHER: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 35);
/// A git server, `git.example`.
pub const GIT: Ipv4Addr = Ipv4Addr::new(93, 184, 217, 1);
/// A package index, `packages.example`.
pub const PACKAGES: Ipv4Addr = Ipv4Addr::new(93, 184, 217, 2);
/// A public resolver, which answers everything.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
/// A server in somebody's private network.
pub const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
/// A server behind a carrier's address translation.
pub const CARRIER: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 9);
/// A server with a link-local address.
pub const LINK_LOCAL: Ipv4Addr = Ipv4Addr::new(169, 254, 7, 7);
/// Where cloud providers serve credentials.
pub const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
/// An address that has no server.
pub const NOBODY: Ipv4Addr = Ipv4Addr::new(5, 5, 5, 5);

/// The addresses of the servers.
pub const SERVERS: [Ipv4Addr; 10] =
    [WEB, OTHER, GIT, PACKAGES, RESOLVER, NAMESERVER, PRIVATE, CARRIER, LINK_LOCAL, METADATA];

/// The lifetime of most names, in seconds.
pub const LIFETIME: u32 = 60;

/// What a name is answered with.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// These addresses.
    Addresses(&'static [Ipv4Addr]),
    /// Another name.
    Alias(&'static str),
}

/// The names, their lifetimes and answers. A name below one that starts with `*.` has its answer.
pub const NAMES: &[(&str, u32, Answer)] = &[
    ("web.example", LIFETIME, Answer::Addresses(&[WEB])),
    ("other.example", LIFETIME, Answer::Addresses(&[OTHER])),
    ("git.example", LIFETIME, Answer::Addresses(&[GIT])),
    ("packages.example", LIFETIME, Answer::Addresses(&[PACKAGES])),
    ("short.example", 1, Answer::Addresses(&[WEB])),
    ("alias.example", LIFETIME, Answer::Alias("web.example")),
    ("aliases.example", LIFETIME, Answer::Alias("alias.example")),
    ("loop.example", LIFETIME, Answer::Alias("loop.example")),
    ("private.example", LIFETIME, Answer::Addresses(&[PRIVATE])),
    ("rebind-private.example", 0, Answer::Addresses(&[PRIVATE])),
    ("rebind-loopback.example", 0, Answer::Addresses(&[Ipv4Addr::LOCALHOST])),
    ("rebind-metadata.example", 0, Answer::Addresses(&[METADATA])),
    ("rebind-host.example", 0, Answer::Addresses(&[HOST])),
    ("rebind-workspace.example", 0, Answer::Addresses(&[Ipv4Addr::new(10, 99, 0, 2)])),
    ("rebind-alias.example", 0, Answer::Alias("rebind-private.example")),
    ("mixed.example", LIFETIME, Answer::Addresses(&[PRIVATE, WEB])),
    ("*.tunnel.example", LIFETIME, Answer::Addresses(&[WEB])),
    ("dns.google", LIFETIME, Answer::Addresses(&[RESOLVER])),
];
