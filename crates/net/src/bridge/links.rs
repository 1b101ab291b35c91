//! Links, addresses, routes and neighbours of the namespace.

use std::io;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

use super::netlink::{Attributes, CREATE, DUMP, EXCLUSIVE, Family, Message, Netlink, REPLACE, text};

const NEW_LINK: u16 = 16;
const DEL_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const NEW_NEIGHBOUR: u16 = 28;
const NEW_RULE: u16 = 32;
const DEL_RULE: u16 = 33;

const INET: u8 = 2;
const BRIDGE: u8 = 7;
const UP: u32 = 1;

/// The routing table that all routes are in. Only packets that the filter has marked look it up, so nothing is
/// forwarded while the filter is missing.
const TABLE: u32 = 100;
/// The mark of packets that may be forwarded.
pub(super) const MARK: u32 = 1;

/// A bridge port that talks to the bridge alone, and is sent what is meant for it alone.
const PORT_SETTINGS: [(u16, u8); 6] = [
    (8, 0),  // learning: the address of a port is fixed
    (9, 0),  // unknown unicast
    (27, 0), // multicast
    (30, 0), // broadcast
    (5, 1),  // no bridge protocol from the port
    (33, 1), // isolated
];

/// The links of the namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Links(Netlink);

impl Links {
    pub(super) fn open() -> io::Result<Self> {
        Netlink::open(Family::Route, 0).map(Self)
    }

    /// The index of a link, or nothing if there is none of this name.
    pub(super) fn find(&mut self, name: &str) -> io::Result<Option<u32>> {
        Ok(self.describe(name)?.map(|(index, _)| index))
    }

    /// The index of the link that a link is a port of, or nothing if it is none's, or missing.
    pub(super) fn master(&mut self, name: &str) -> io::Result<Option<u32>> {
        Ok(self.describe(name)?.and_then(|(_, master)| master))
    }

    fn describe(&mut self, name: &str) -> io::Result<Option<(u32, Option<u32>)>> {
        let mut found = None;
        let message = Message::new(GET_LINK, 0, &link_header(0, 0, 0)).with(3, &text(name));
        let result = self.0.exchange(message, super::netlink::ACK, |kind, body| {
            if kind == NEW_LINK && body.len() >= 16 {
                let index = number(&body[4..8]);
                let master = Attributes(&body[16..]).find(|(kind, _)| *kind == 10);
                found = Some((index, master.map(|(_, value)| number(value))));
            }
        });
        match result {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(None),
            result => result.map(|()| found),
        }
    }

    fn index(&mut self, name: &str) -> io::Result<u32> {
        self.find(name)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no link {name}")))
    }

    /// Creates a bridge with an address, up.
    pub(super) fn add_bridge(&mut self, name: &str, mac: [u8; 6], address: Ipv4Addr) -> io::Result<()> {
        let message = Message::new(NEW_LINK, CREATE | EXCLUSIVE, &link_header(0, UP, UP))
            .with(3, &text(name))
            .with(1, &mac)
            .with_nested(18, |info| {
                // Without multicast snooping: the bridge itself has nothing to say to guests.
                info.with(1, b"bridge").with_nested(2, |data| data.with(23, &[0]))
            });
        self.0.request(message)?;
        self.add_address(name, address, 32)
    }

    /// Adds an address that brings no route of its own.
    pub(super) fn add_address(&mut self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        const NO_PREFIX_ROUTE: u32 = 0x200;
        let index = self.index(name)?;
        let fixed = [&[INET, prefix, 0, 0][..], &index.to_ne_bytes()].concat();
        let message = Message::new(NEW_ADDRESS, CREATE | REPLACE, &fixed)
            .with(2, &address.octets())
            .with(1, &address.octets())
            .with(8, &NO_PREFIX_ROUTE.to_ne_bytes());
        self.0.request(message)
    }

    pub(super) fn set_up(&mut self, name: &str) -> io::Result<()> {
        let index = self.index(name)?;
        self.0.request(Message::new(NEW_LINK, 0, &link_header(index, UP, UP)))
    }

    /// Removes a link. One that is not there is no error.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        match self.find(name)? {
            Some(index) => self.0.request(Message::new(DEL_LINK, 0, &link_header(index, 0, 0))),
            None => Ok(()),
        }
    }

    /// Makes a link a port of the bridge, isolated before it is up.
    pub(super) fn add_port(&mut self, name: &str, bridge: &str, mtu: usize) -> io::Result<()> {
        let (index, bridge) = (self.index(name)?, self.index(bridge)?);
        let joined = Message::new(NEW_LINK, 0, &link_header(index, 0, UP))
            .with(10, &bridge.to_ne_bytes())
            .with(4, &(mtu as u32).to_ne_bytes());
        self.0.request(joined)?;
        let settings = Message::new(NEW_LINK, 0, &link_header(index, 0, 0)).with_nested(18, |info| {
            info.with(4, b"bridge").with_nested(5, |data| {
                PORT_SETTINGS.iter().fold(data, |data, (kind, value)| data.with(*kind, &[*value]))
            })
        });
        self.0.request(settings)?;
        self.0.request(Message::new(NEW_LINK, 0, &link_header(index, UP, UP)))
    }

    /// Binds an address and a MAC address to a port, for good: nothing is learnt and nothing is asked for.
    pub(super) fn bind_port(
        &mut self,
        name: &str,
        bridge: &str,
        mac: [u8; 6],
        address: Ipv4Addr,
        mtu: usize,
    ) -> io::Result<()> {
        const STATIC: u16 = 0x40;
        const PERMANENT: u16 = 0x80;
        const OF_MASTER: u8 = 4;
        let (index, bridge) = (self.index(name)?, self.index(bridge)?);
        let entry =
            Message::new(NEW_NEIGHBOUR, CREATE | REPLACE, &neighbour(BRIDGE, index, STATIC, OF_MASTER));
        self.0.request(entry.with(2, &mac))?;
        let entry = Message::new(NEW_NEIGHBOUR, CREATE | REPLACE, &neighbour(INET, bridge, PERMANENT, 0));
        self.0.request(entry.with(1, &address.octets()).with(2, &mac))?;
        self.add_route(Ipv4Net::from(address), bridge, None, Some(mtu))
    }

    /// Routes a range through a link.
    pub(super) fn route(&mut self, range: Ipv4Net, link: &str, via: Option<Ipv4Addr>) -> io::Result<()> {
        let index = self.index(link)?;
        self.add_route(range, index, via, None)
    }

    fn add_route(
        &mut self,
        range: Ipv4Net,
        link: u32,
        via: Option<Ipv4Addr>,
        mtu: Option<usize>,
    ) -> io::Result<()> {
        const STATIC: u8 = 4;
        const LINK_SCOPE: u8 = 253;
        const UNICAST: u8 = 1;
        let scope = if via.is_some() { 0 } else { LINK_SCOPE };
        let fixed = [INET, range.prefix_len(), 0, 0, TABLE as u8, STATIC, scope, UNICAST, 0, 0, 0, 0];
        let mut message = Message::new(NEW_ROUTE, CREATE | REPLACE, &fixed)
            .with(1, &range.addr().octets())
            .with(4, &link.to_ne_bytes());
        if let Some(via) = via {
            message = message.with(5, &via.octets());
        }
        if let Some(mtu) = mtu {
            message = message.with_nested(8, |metrics| metrics.with(2, &(mtu as u32).to_ne_bytes()));
        }
        self.0.request(message)
    }

    /// Lets marked packets, and those of the namespace itself, use the routes; and no others.
    pub(super) fn add_rules(&mut self) -> io::Result<()> {
        const LOOK_UP: u8 = 1;
        let rule = |kind, flags, table: u32, priority: u32| {
            Message::new(kind, flags, &[INET, 0, 0, 0, table as u8, 0, 0, LOOK_UP, 0, 0, 0, 0])
                .with(6, &priority.to_ne_bytes())
        };
        let create = CREATE | EXCLUSIVE;
        self.0.request(rule(NEW_RULE, create, TABLE, 100).with(10, &MARK.to_ne_bytes()))?;
        self.0.request(rule(NEW_RULE, create, TABLE, 101).with(3, &text("lo")))?;
        self.0.request(rule(DEL_RULE, 0, 254, 32766))?;
        self.0.request(rule(DEL_RULE, 0, 253, 32767))
    }

    /// The IPv4 addresses of all links.
    pub(super) fn addresses(&mut self) -> io::Result<Vec<Ipv4Addr>> {
        let mut found = Vec::new();
        let fixed = [INET, 0, 0, 0, 0, 0, 0, 0];
        self.0.exchange(Message::new(GET_ADDRESS, DUMP, &fixed), 0, |kind, body| {
            if kind != NEW_ADDRESS || body.len() < 8 {
                return;
            }
            let local = Attributes(&body[8..]).find(|(kind, _)| *kind == 2);
            if let Some(octets) = local.and_then(|(_, value)| <[u8; 4]>::try_from(value).ok()) {
                found.push(Ipv4Addr::from(octets));
            }
        })?;
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

fn link_header(index: u32, flags: u32, change: u32) -> Vec<u8> {
    [&[0; 4][..], &index.to_ne_bytes(), &flags.to_ne_bytes(), &change.to_ne_bytes()].concat()
}

fn neighbour(family: u8, link: u32, state: u16, flags: u8) -> Vec<u8> {
    [&[family, 0, 0, 0][..], &link.to_ne_bytes(), &state.to_ne_bytes(), &[flags, 0]].concat()
}

fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
