//! Flows between two workspaces: packets are passed on unchanged, from one card to the other, if a flow is open.
//!
//! A flow opens with a packet that may start one and that both policies allow. Answers pass only while it is open, so a
//! workspace that may not reach another can still be reached by it, if the other's policy says so.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::flow::{FlowKey, Record};
use super::state::{Machine, lock};
use crate::frame::{Dropped, Inbound};
use crate::log::LogEvent;
use agentiso_policy::egress::{Protocol, Rule, Verdict};

/// How long a connection that was ended or reset is remembered, for the last segments.
const LINGER: Duration = Duration::from_secs(30);

/// The side that opened a flow, and the flow.
type Key = (Ipv4Addr, FlowKey);

/// Open flows between workspaces.
#[derive(Default)]
pub(crate) struct Neighbours {
    flows: Mutex<HashMap<Key, Open>>,
}

struct Open {
    record: Arc<Record>,
    last_used: Instant,
    /// Which side has ended its direction: the one that opened the flow, and the other.
    ended: [bool; 2],
}

/// What is known of a packet between two workspaces.
#[derive(Clone, Copy)]
struct Crossing<'a> {
    key: FlowKey,
    /// Whether the packet may open a flow.
    opens: bool,
    /// Whether it ends its sender's direction of a connection, or the whole connection.
    is_fin: bool,
    is_reset: bool,
    packet: &'a [u8],
}

impl Neighbours {
    /// Forgets flows on which nothing moved for too long.
    pub(crate) fn expire(&self, now: Instant, idle: impl Fn(Protocol) -> Duration) {
        lock(&self.flows).retain(|(_, key), open| {
            let limit = if open.ended == [true; 2] { LINGER } else { idle(key.protocol) };
            let keep = now.saturating_duration_since(open.last_used) < limit;
            if !keep {
                open.record.finish(LogEvent::Closed);
            }
            keep
        });
    }

    /// Ends the flows that are no longer allowed.
    pub(crate) fn enforce(&self, is_allowed: impl Fn(Ipv4Addr, Ipv4Addr, u16, Protocol) -> bool) {
        lock(&self.flows).retain(|(from, key), open| {
            let keep = is_allowed(*from, key.to, key.port, key.protocol);
            if !keep {
                open.record.finish(LogEvent::Cut);
            }
            keep
        });
    }

    /// Ends the flows of a machine that is attached anew: it knows nothing of them, and may have other rules.
    pub(crate) fn end_all_of(&self, address: Ipv4Addr) {
        self.enforce(|from, to, _, _| from != address && to != address);
    }

    /// Adds a flow.
    fn add(&self, key: Key, record: Arc<Record>) {
        let open = Open { record, last_used: Instant::now(), ended: [false; 2] };
        lock(&self.flows).insert(key, open);
    }

    /// Ends a flow.
    fn cut(&self, key: &Key) {
        if let Some(open) = lock(&self.flows).remove(key) {
            open.record.finish(LogEvent::Cut);
        }
    }

    /// Uses the flow that a packet belongs to, in either direction.
    fn pass(&self, from: Ipv4Addr, crossing: &Crossing<'_>) -> bool {
        let key = crossing.key;
        let answered = FlowKey { protocol: key.protocol, source: key.port, to: from, port: key.source };
        let answered = match key.protocol {
            // Both directions of a ping have the same identifier, which is in `source`.
            Protocol::Icmp => FlowKey { source: key.source, port: 0, ..answered },
            _ => answered,
        };
        let mut flows = lock(&self.flows);
        let is_reply = !flows.contains_key(&(from, key));
        let key = if is_reply { (key.to, answered) } else { (from, key) };
        let Some(open) = flows.get_mut(&key) else { return false };
        open.last_used = Instant::now();
        open.ended[usize::from(is_reply)] |= crossing.is_fin;
        if crossing.is_reset {
            open.ended = [true; 2];
        }
        if is_reply {
            open.record.received(crossing.packet.len());
        } else {
            open.record.sent(crossing.packet.len());
        }
        true
    }
}

impl Machine {
    pub(super) fn pass_to_neighbour(self: &Arc<Self>, to: Ipv4Addr, inbound: Inbound<'_>) {
        let Some(crossing) = crossing(to, inbound) else { return };
        if !self.take_bandwidth(crossing.packet.len()) {
            return;
        }
        let neighbour = self.shared.machine_at(to);
        let neighbours = &self.shared.neighbours;
        if !neighbours.pass(self.card.address, &crossing) {
            if !crossing.opens {
                return self.refuse_unknown(&crossing);
            }
            let verdict = self.verdict_on(&crossing);
            if !verdict.allowed {
                return self.refuse_crossing(&crossing, &verdict.rule);
            }
            let Some(permit) = self.permit() else {
                return self.refuse_crossing(&crossing, &Rule::Limit("connections"));
            };
            let record = Record::open(self, permit, crossing.key, None, &verdict.rule);
            record.sent(crossing.packet.len());
            let key = (self.card.address, crossing.key);
            neighbours.add(key, record);
            // A policy that changed before the flow was there did not end it.
            let verdict = self.verdict_on(&crossing);
            if !verdict.allowed {
                neighbours.cut(&key);
                return self.refuse_crossing(&crossing, &verdict.rule);
            }
        }
        if let Some(neighbour) = neighbour {
            // A card with a smaller MTU would cut the frame off.
            if crossing.packet.len() <= neighbour.card.mtu {
                neighbour.send(Some(neighbour.framer.wrap(crossing.packet)));
            } else {
                neighbour.counting.dropped(Dropped::Oversized);
            }
        }
    }

    fn verdict_on(&self, crossing: &Crossing<'_>) -> Verdict {
        let key = crossing.key;
        self.shared.neighbour_verdict(self.card.address, key.to, key.port, key.protocol)
    }

    fn refuse_crossing(&self, crossing: &Crossing<'_>, rule: &Rule) {
        let key = crossing.key;
        if key.protocol == Protocol::Tcp {
            self.log_refused(key.protocol, None, Some((key.to, key.port)), rule);
            self.send(self.framer.reset(crossing.packet));
        } else {
            self.refuse_packet(key.protocol, None, (key.to, key.port), rule, crossing.packet);
        }
    }

    /// A segment of no open flow: a connection from before a restart, or one that was cut.
    fn refuse_unknown(&self, crossing: &Crossing<'_>) {
        if crossing.key.protocol == Protocol::Tcp {
            self.send(self.framer.reset(crossing.packet));
        }
    }
}

fn crossing(to: Ipv4Addr, inbound: Inbound<'_>) -> Option<Crossing<'_>> {
    Some(match inbound {
        Inbound::ArpRequest => return None,
        Inbound::Tcp { segment, packet, .. } => Crossing {
            key: FlowKey { protocol: Protocol::Tcp, source: segment.source, to, port: segment.port },
            opens: segment.is_syn,
            is_fin: segment.is_fin,
            is_reset: segment.is_reset,
            packet,
        },
        Inbound::Udp { source, port, packet, .. } => Crossing {
            key: FlowKey { protocol: Protocol::Udp, source, to, port },
            opens: true,
            is_fin: false,
            is_reset: false,
            packet,
        },
        Inbound::Echo { is_reply, ident, packet, .. } => Crossing {
            key: FlowKey { protocol: Protocol::Icmp, source: ident, to, port: 0 },
            opens: !is_reply,
            is_fin: false,
            is_reset: false,
            packet,
        },
    })
}
