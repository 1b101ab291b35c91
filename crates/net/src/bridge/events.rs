//! Writes the log from what the kernel reports: flows that the filter opened or refused, and flows that ended.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

use agentiso_policy::egress::Protocol;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinSet;

use super::conntrack::{self, Flow};
use super::netlink::{ACK, Attributes, Family, Message, Netlink};
use super::rules::{LOG_GROUP, OPENED, REFUSED};
use super::state::Shared;
use crate::counters::Counting;
use crate::log::LogEvent;

const LOGGED: u16 = 0x400;
const CONFIGURE: u16 = 0x401;
const ENDED: u16 = 0x102;
/// The rule of a flow that ended after its name was forgotten.
const OLDER: &str = "allowed when it was opened";
/// As much of a packet as is looked at.
const HEADERS: u32 = 128;

/// Reads the kernel's reports. Must be called in a tokio runtime.
pub(super) fn start(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) -> io::Result<()> {
    let logged = shared.namespace.run(|| {
        let mut netlink = Netlink::open(Family::Netfilter, 0)?;
        let fixed = [&[0, 0][..], &LOG_GROUP.to_be_bytes()].concat();
        // Bound; with the headers of each packet; each is sent at once.
        netlink.request(Message::new(CONFIGURE, ACK, &fixed).with(1, &[1]))?;
        let mode = [&HEADERS.to_be_bytes()[..], &[2, 0]].concat();
        netlink.request(Message::new(CONFIGURE, ACK, &fixed).with(2, &mode).with(5, &1_u32.to_be_bytes()))?;
        netlink.set_nonblocking()?;
        Ok(netlink)
    });
    let ended = shared.namespace.run(|| {
        let netlink = Netlink::open(Family::Netfilter, conntrack::ENDED)?;
        netlink.set_nonblocking()?;
        Ok(netlink)
    });
    follow(tasks, logged.flatten()?, Arc::downgrade(shared), |shared, kind, body| {
        if kind == LOGGED {
            packet(shared, body);
        }
    })?;
    follow(tasks, ended.flatten()?, Arc::downgrade(shared), |shared, kind, body| {
        if kind == ENDED
            && let Some(flow) = conntrack::parse(body)
        {
            closed(shared, &flow);
        }
    })
}

fn follow(
    tasks: &mut JoinSet<()>,
    netlink: Netlink,
    shared: Weak<Shared>,
    handle: impl Fn(&Shared, u16, &[u8]) + Send + 'static,
) -> io::Result<()> {
    // SAFETY: the `Netlink` owns its descriptor, and the `AsyncFd` owns the `Netlink`, which never replaces it.
    let netlink = unsafe { AsyncFd::register(netlink) }?;
    tasks.spawn(async move {
        loop {
            let Ok(mut ready) = netlink.readable().await else { return };
            let Some(shared) = shared.upgrade() else { return };
            loop {
                match netlink.get_ref().receive(|kind, body| handle(&shared, kind, body)) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // Reports were lost; the next ones arrive.
                    Err(error) => tracing::debug!(%error, "reports of the kernel were lost"),
                }
            }
            ready.clear_ready();
        }
    });
    Ok(())
}

/// A packet that the filter logged.
fn packet(shared: &Shared, body: &[u8]) {
    let Some(attributes) = body.get(4..) else { return };
    let (mut prefix, mut payload) = (&[][..], &[][..]);
    for (kind, value) in Attributes(attributes) {
        match kind {
            9 => payload = value,
            10 => prefix = value,
            _ => {}
        }
    }
    let Some((from, to, port, protocol)) = destination(payload) else { return };
    let Some(client) = shared.client(from) else { return };
    let is = |text: &str| prefix.starts_with(text.as_bytes());
    let event = if is(OPENED) {
        Counting::add(&client.counting.flows_opened, 1);
        LogEvent::Opened
    } else if is(REFUSED) {
        Counting::add(&client.counting.refused, 1);
        LogEvent::Refused
    } else {
        return;
    };
    let (verdict, name) = shared.verdict(from, to, port, protocol);
    let rule = if verdict.allowed == (event == LogEvent::Opened) {
        verdict.rule.to_string()
    } else {
        // Allowed by policy, and refused: only the limit on connections does that.
        agentiso_policy::egress::Rule::Limit("connections").to_string()
    };
    let mut entry = client.entry(event, protocol, rule);
    (entry.name, entry.address, entry.port) = (name, Some(to), port);
    client.log(shared, entry);
}

fn closed(shared: &Shared, flow: &Flow) {
    let Some(client) = shared.client(flow.from).filter(|_| flow.to != shared.pool.gateway()) else { return };
    Counting::add(&client.counting.bytes_sent, flow.sent);
    Counting::add(&client.counting.bytes_received, flow.received);
    if shared.was_cut(flow) {
        // It was logged then.
        return;
    }
    let (verdict, name) = shared.verdict(flow.from, flow.to, flow.port, flow.protocol);
    // The name that opened it may be forgotten by now.
    let rule = if verdict.allowed { verdict.rule.to_string() } else { OLDER.to_owned() };
    let mut entry = client.entry(LogEvent::Closed, flow.protocol, rule);
    (entry.name, entry.address, entry.port) = (name, Some(flow.to), flow.port);
    (entry.bytes_sent, entry.bytes_received) = (flow.sent, flow.received);
    client.log(shared, entry);
}

/// Sender, receiver, port and transport of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<(Ipv4Addr, Ipv4Addr, u16, Protocol)> {
    let address =
        |at: usize| -> Option<Ipv4Addr> { Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into()) };
    let header = usize::from(packet.first()? & 15) * 4;
    let port =
        || -> Option<u16> { Some(u16::from_be_bytes(packet.get(header + 2..header + 4)?.try_into().ok()?)) };
    let (port, protocol) = match packet.get(9)? {
        6 => (port()?, Protocol::Tcp),
        17 => (port()?, Protocol::Udp),
        1 => (0, Protocol::Icmp),
        _ => return None,
    };
    Some((address(12)?, address(16)?, port, protocol))
}
