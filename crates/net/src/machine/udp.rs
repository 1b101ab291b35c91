//! UDP flows: one connected socket on the host for each pair of guest port and destination.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::net::SendFlags;
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::flow::{Flow, FlowKey, Record};
use super::state::{Machine, lock};
use crate::frame::Unreachable;
use crate::log::LogEvent;
use agentiso_policy::egress::{Protocol, Rule};

/// What an undelivered packet's sender gets back: the IP header and the ports.
const QUOTE: usize = 28;
/// The largest datagram.
const MAX_DATAGRAM: usize = 65_536;

/// A flow of datagrams: UDP, or pings.
pub(super) struct UdpFlow {
    pub(super) record: Arc<Record>,
    pub(super) socket: UdpSocket,
    last_used: Mutex<Instant>,
    /// The start of the last packet the guest sent, to be quoted if it cannot be delivered.
    quote: Mutex<Vec<u8>>,
}

impl UdpFlow {
    pub(super) fn new(record: Arc<Record>, socket: UdpSocket) -> Self {
        Self { record, socket, last_used: Mutex::new(Instant::now()), quote: Mutex::default() }
    }
}

impl Machine {
    pub(super) fn udp(self: &Arc<Self>, to: Ipv4Addr, source: u16, port: u16, payload: &[u8], packet: &[u8]) {
        let key = FlowKey { protocol: Protocol::Udp, source, to, port };
        let Some(flow) = self
            .datagrams(key, packet, |machine| machine.shared.uplink.datagram(SocketAddrV4::new(to, port)))
        else {
            return;
        };
        self.send_datagram(&flow, payload, payload.len(), packet);
    }

    /// Finds the flow of a datagram, or opens it if policy allows. Otherwise the guest is told why not.
    pub(super) fn datagrams(
        self: &Arc<Self>,
        key: FlowKey,
        packet: &[u8],
        open: impl FnOnce(&Self) -> io::Result<UdpSocket>,
    ) -> Option<Arc<UdpFlow>> {
        if let Some(Flow::Datagrams(flow)) = lock(&self.flows).get(&key) {
            return Some(Arc::clone(flow));
        }
        let to = (key.to, key.port);
        let (verdict, name) = self.decide(key.to, key.port, key.protocol);
        if !verdict.allowed {
            self.refuse_packet(key.protocol, name, to, &verdict.rule, packet);
            return None;
        }
        let Some(permit) = self.permit() else {
            self.refuse_packet(key.protocol, name, to, &Rule::Limit("connections"), packet);
            return None;
        };
        let record = Record::open(self, permit, key, name, &verdict.rule);
        let socket = match open(self) {
            Ok(socket) => socket,
            Err(error) => {
                record.finish(LogEvent::Failed);
                let why = match error.kind() {
                    // The host does not allow pings.
                    io::ErrorKind::PermissionDenied => Unreachable::Prohibited,
                    _ => Unreachable::Host,
                };
                self.send(self.framer.unreachable(packet, why));
                return None;
            }
        };
        let flow = Arc::new(UdpFlow::new(record, socket));
        lock(&self.flows).insert(key, Flow::Datagrams(Arc::clone(&flow)));
        // A policy that changed before the flow was there did not end it.
        if !self.is_allowed_to_begin(&flow.record) {
            self.forget(key, Some(&flow.record));
            flow.record.cut_off();
            self.send(self.framer.unreachable(packet, Unreachable::Prohibited));
            return None;
        }
        let (machine, task) = (Arc::clone(self), Arc::clone(&flow));
        self.spawn(async move { machine.receive_datagrams(key, &task).await });
        Some(flow)
    }

    pub(super) fn send_datagram(&self, flow: &UdpFlow, datagram: &[u8], payload: usize, packet: &[u8]) {
        if !self.take_bandwidth(payload) {
            return;
        }
        packet.get(..QUOTE).unwrap_or(packet).clone_into(&mut lock(&flow.quote));
        *lock(&flow.last_used) = Instant::now();
        // Not through the runtime, which does not know at first that a new socket is writable.
        match rustix::net::send(&flow.socket, datagram, SendFlags::DONTWAIT) {
            Ok(_) => flow.record.sent(payload),
            Err(error) => self.report(flow, &error.into()),
        }
    }

    /// Receives answers until the flow is idle or cut.
    async fn receive_datagrams(&self, key: FlowKey, flow: &UdpFlow) {
        let idle = self.limits.udp_idle();
        let mut buffer = Vec::new();
        let ended = loop {
            let deadline = *lock(&flow.last_used) + idle;
            tokio::select! {
                ready = flow.socket.ready(Interest::READABLE | Interest::ERROR) => {
                    let Ok(ready) = ready else { break LogEvent::Failed };
                    if ready.is_error() {
                        self.receive_error(flow);
                    }
                    // An idle flow holds no buffer.
                    buffer.resize(MAX_DATAGRAM, 0);
                    self.receive_ready(key, flow, &mut buffer);
                    buffer = Vec::new();
                }
                () = tokio::time::sleep_until(deadline.into()) => {
                    if lock(&flow.last_used).elapsed() >= idle {
                        break LogEvent::Closed;
                    }
                }
                () = flow.record.cut() => break LogEvent::Cut,
            }
        };
        self.forget(key, Some(&flow.record));
        flow.record.finish(ended);
    }

    fn receive_ready(&self, key: FlowKey, flow: &UdpFlow, buffer: &mut [u8]) {
        // A bounded number at a time: other flows have their turn too.
        for _ in 0..16 {
            match flow.socket.try_recv(buffer) {
                Ok(length) => {
                    *lock(&flow.last_used) = Instant::now();
                    if self.take_bandwidth(length) {
                        flow.record.received(length);
                        self.deliver(key, &buffer[..length]);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.report(flow, &error),
            }
        }
    }

    /// Passes on an error that the kernel learned after the packet was sent: it is not announced as something to read.
    fn receive_error(&self, flow: &UdpFlow) {
        let taken: io::Result<()> =
            flow.socket.try_io(Interest::ERROR, || match flow.socket.take_error()? {
                Some(error) => Err(error),
                None => Err(io::ErrorKind::WouldBlock.into()),
            });
        if let Err(error) = taken {
            self.report(flow, &error);
        }
    }

    fn deliver(&self, key: FlowKey, datagram: &[u8]) {
        match key.protocol {
            Protocol::Icmp => self.deliver_echo(key, datagram),
            _ => self.send(self.framer.udp(key.to, key.port, key.source, datagram)),
        }
    }

    /// Tells the guest what the host's kernel learned of its last packet.
    fn report(&self, flow: &UdpFlow, error: &io::Error) {
        let why = match error.kind() {
            io::ErrorKind::WouldBlock => return,
            io::ErrorKind::ConnectionRefused => Unreachable::Port,
            _ => Unreachable::Host,
        };
        self.send(self.framer.unreachable(&lock(&flow.quote), why));
    }

    /// Refuses a packet other than a TCP segment.
    pub(super) fn refuse_packet(
        &self,
        protocol: Protocol,
        name: Option<String>,
        to: (Ipv4Addr, u16),
        rule: &Rule,
        packet: &[u8],
    ) {
        self.log_refused(protocol, name, Some(to), rule);
        self.send(self.framer.unreachable(packet, Unreachable::Prohibited));
    }
}
