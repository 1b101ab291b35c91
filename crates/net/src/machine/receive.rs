//! Receives the machine's frames and passes each on.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::state::{Machine, lock};
use crate::counters::Counting;
use crate::frame::{Dropped, ETHERNET_HEADER, Inbound, parse};
use agentiso_policy::egress::{Protocol, Rule};

/// Frames that are handled before other machines get their turn.
const TURN: usize = 64;

impl Machine {
    pub(super) async fn receive(self: Arc<Self>) {
        // One byte more than a frame may have, so that a longer one is noticed.
        let mut buffer = vec![0; self.card.mtu + ETHERNET_HEADER + 1];
        loop {
            if let Err(error) = self.link.readable().await {
                tracing::warn!(workspace = %self.id, %error, "the card cannot be read");
                return;
            }
            for _ in 0..TURN {
                match self.link.try_receive(&mut buffer) {
                    Ok(length) => self.handle(&buffer[..length]),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => {
                        tracing::warn!(workspace = %self.id, %error, "a frame cannot be read");
                        break;
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    }

    fn handle(self: &Arc<Self>, frame: &[u8]) {
        Counting::add(&self.counting.frames_from_guest, 1);
        // The frame is read even if it is over the limit: QEMU would spin on a full socket.
        if !lock(&self.buckets).packets.take(1, Instant::now()) {
            return self.counting.dropped(Dropped::PacketRate);
        }
        // Without a policy nothing passes, not even ARP.
        if self.policy().is_none() {
            return;
        }
        match parse(&self.card, frame) {
            Ok(inbound) => self.pass(inbound),
            Err(reason) => self.counting.dropped(reason),
        }
    }

    fn pass(self: &Arc<Self>, inbound: Inbound<'_>) {
        let to = match inbound {
            Inbound::ArpRequest => return self.send(Some(self.framer.arp_reply())),
            Inbound::Tcp { to, .. } | Inbound::Udp { to, .. } | Inbound::Echo { to, .. } => to,
        };
        if to == self.card.gateway {
            self.pass_to_gateway(inbound);
        } else if self.shared.pool.range().contains(&to) {
            self.pass_to_neighbour(to, inbound);
        } else {
            match inbound {
                Inbound::ArpRequest => {}
                Inbound::Tcp { to, segment, packet } => self.tcp(to, segment, packet),
                Inbound::Udp { to, source, port, payload, packet } => {
                    self.udp(to, source, port, payload, packet)
                }
                Inbound::Echo { is_reply: true, .. } => self.counting.dropped(Dropped::Icmp),
                Inbound::Echo { to, ident, sequence, payload, packet, .. } => {
                    self.echo(to, ident, sequence, payload, packet);
                }
            }
        }
    }

    fn pass_to_gateway(self: &Arc<Self>, inbound: Inbound<'_>) {
        match inbound {
            Inbound::ArpRequest | Inbound::Echo { is_reply: true, .. } => {}
            Inbound::Tcp { to, segment, packet } if segment.port == 53 => self.tcp(to, segment, packet),
            Inbound::Udp { source, port: 53, payload, .. } => self.query(source, payload),
            Inbound::Echo { to, ident, sequence, payload, .. } => {
                self.send(self.framer.echo_reply(to, ident, sequence, payload));
            }
            Inbound::Tcp { to, segment, packet } => {
                if segment.is_syn {
                    self.log_refused(Protocol::Tcp, None, Some((to, segment.port)), &Rule::GatewayClosed);
                }
                self.send(self.framer.reset(packet));
            }
            Inbound::Udp { to, port, packet, .. } => {
                self.refuse_packet(Protocol::Udp, None, (to, port), &Rule::GatewayClosed, packet);
            }
        }
    }

    /// Answers a DNS query in a task of its own.
    fn query(self: &Arc<Self>, source: u16, payload: &[u8]) {
        if !self.take_query() {
            return;
        }
        let Some(permit) = self.permit() else { return };
        let (machine, query) = (Arc::clone(self), payload.to_vec());
        self.spawn(async move {
            let _permit = permit;
            if let Some(answer) = crate::dns::answer_datagram(&*machine, &query).await {
                machine.send(machine.framer.udp(machine.card.gateway, 53, source, &answer));
            }
        });
    }
}
