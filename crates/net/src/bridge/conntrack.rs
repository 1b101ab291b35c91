//! The kernel's table of flows: listed and removed when a policy becomes stricter, and read when a flow ends.

use std::io;
use std::net::Ipv4Addr;

use agentiso_policy::egress::Protocol;

use super::netlink::{ACK, Attributes, DUMP, Family, Message, Netlink};

const NEW: u16 = 0x100;
const GET: u16 = 0x101;
const DELETE: u16 = 0x102;
/// The netlink group for ended flows, as a bit.
pub(super) const ENDED: u32 = 1 << 2;
/// IPv4.
const FIXED: [u8; 4] = [2, 0, 0, 0];

/// A flow, as it was before address translation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Flow {
    pub(super) from: Ipv4Addr,
    pub(super) to: Ipv4Addr,
    pub(super) protocol: Protocol,
    /// The destination port; 0 for pings.
    pub(super) port: u16,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// As the kernel names it.
    tuple: Vec<u8>,
}

impl Flow {
    /// What tells it from all other flows.
    pub(super) fn tuple(&self) -> &[u8] {
        &self.tuple
    }
}

/// The flows of the namespace of this thread.
pub(super) fn list() -> io::Result<Vec<Flow>> {
    let mut netlink = Netlink::open(Family::Netfilter, 0)?;
    let mut flows = Vec::new();
    netlink.exchange(Message::new(GET, DUMP, &FIXED), 0, |kind, body| {
        if kind == NEW {
            flows.extend(parse(body));
        }
    })?;
    Ok(flows)
}

/// Removes flows: their next packets are checked like new ones. A flow that has ended already is no error.
pub(super) fn remove(flows: &[Flow]) -> io::Result<()> {
    let mut netlink = Netlink::open(Family::Netfilter, 0)?;
    for flow in flows {
        let message = Message::new(DELETE, ACK, &FIXED).with(0x8001, &flow.tuple);
        match netlink.request(message) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOENT.raw_os_error()) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Reads a message about a flow. Nothing if it is of another kind.
pub(super) fn parse(body: &[u8]) -> Option<Flow> {
    let mut tuple = None;
    let (mut sent, mut received) = (0, 0);
    for (kind, value) in Attributes(body.get(4..)?) {
        match kind {
            1 => tuple = Some(value),
            9 => sent = bytes(value),
            10 => received = bytes(value),
            _ => {}
        }
    }
    let tuple = tuple?;
    let part = |wanted: u16| Attributes(tuple).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let (addresses, transport) = (part(1)?, part(2)?);
    let address = |wanted: u16| -> Option<Ipv4Addr> {
        let (_, value) = Attributes(addresses).find(|(kind, _)| *kind == wanted)?;
        Some(<[u8; 4]>::try_from(value).ok()?.into())
    };
    let of_transport =
        |wanted: u16| Attributes(transport).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let protocol = match of_transport(1)?.first()? {
        1 => Protocol::Icmp,
        6 => Protocol::Tcp,
        17 => Protocol::Udp,
        _ => return None,
    };
    let port = of_transport(3).and_then(|value| value.try_into().ok()).map_or(0, u16::from_be_bytes);
    Some(Flow { from: address(1)?, to: address(2)?, protocol, port, sent, received, tuple: tuple.to_vec() })
}

fn bytes(counters: &[u8]) -> u64 {
    let found = Attributes(counters).find(|(kind, _)| *kind == 2);
    found.and_then(|(_, value)| value.try_into().ok()).map_or(0, u64::from_be_bytes)
}
