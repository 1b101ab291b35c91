//! Pings of addresses outside the pool, through the host's unprivileged ICMP sockets.

use std::net::Ipv4Addr;
use std::sync::Arc;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr};

use super::flow::FlowKey;
use super::state::Machine;
use agentiso_policy::egress::Protocol;

impl Machine {
    pub(super) fn echo(
        self: &Arc<Self>,
        to: Ipv4Addr,
        ident: u16,
        sequence: u16,
        payload: &[u8],
        packet: &[u8],
    ) {
        let key = FlowKey { protocol: Protocol::Icmp, source: ident, to, port: 0 };
        let Some(flow) = self.datagrams(key, packet, |machine| machine.shared.uplink.ping(to)) else {
            return;
        };
        // The kernel replaces the identifier by the socket's own, and restores nothing: `deliver_echo` does.
        let repr = Icmpv4Repr::EchoRequest { ident, seq_no: sequence, data: payload };
        let mut message = vec![0; repr.buffer_len()];
        repr.emit(&mut Icmpv4Packet::new_unchecked(&mut message), &ChecksumCapabilities::default());
        self.send_datagram(&flow, &message, payload.len(), packet);
    }

    pub(super) fn deliver_echo(&self, key: FlowKey, message: &[u8]) {
        let reply = Icmpv4Packet::new_checked(message).ok().and_then(|packet| {
            match Icmpv4Repr::parse(&packet, &ChecksumCapabilities::ignored()) {
                Ok(Icmpv4Repr::EchoReply { seq_no, data, .. }) => {
                    self.framer.echo_reply(key.to, key.source, seq_no, data)
                }
                _ => None,
            }
        });
        self.send(reply);
    }
}
