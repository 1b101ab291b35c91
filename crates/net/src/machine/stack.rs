//! One TCP connection towards the guest, on a smoltcp interface of its own.
//!
//! A shared interface would look at every socket for every packet. With one per connection, the router's own table finds
//! the connection, and the cost of a packet does not grow with the number of connections.

use std::net::Ipv4Addr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpListenEndpoint};

use crate::frame::{Card, ETHERNET_HEADER, Framer};
use crate::link::{Link, Sent};

/// A guest that acknowledges nothing for this long is gone. Long, because machines are paused for snapshots.
const UNACKNOWLEDGED: Duration = Duration::from_secs(600);

/// One end of a connection, as the guest sees it: the server's.
pub(super) struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    outbox: Outbox,
}

impl Stack {
    /// Listens on the address that the guest wants to reach. `buffer` bytes are kept for each direction at most.
    pub(super) fn listen(
        card: Card,
        link: Arc<Link>,
        to: Ipv4Addr,
        port: u16,
        buffer: usize,
    ) -> Option<Self> {
        let mut outbox = Outbox {
            link,
            header: Framer::new(card).header(),
            mtu: card.mtu,
            frame: Vec::new(),
            is_pending: false,
            sent: 0,
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = random_seed();
        let mut interface = Interface::new(config, &mut Port { incoming: None, outbox: &mut outbox }, now());
        // With a prefix of 0 every guest address is on this link, so no route is needed.
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(to.into(), 0)).unwrap_or_default());
        let rings = || SocketBuffer::new(vec![0; buffer]);
        let mut socket = Socket::new(rings(), rings());
        socket.set_nagle_enabled(false);
        // A delayed acknowledgement would make the guest wait: with large frames its window holds only a few.
        socket.set_ack_delay(None);
        socket.set_timeout(Some(UNACKNOWLEDGED.into()));
        socket.listen(IpListenEndpoint { addr: Some(to.into()), port }).ok()?;
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        Some(Self { interface, sockets, handle, outbox })
    }

    pub(super) fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Takes in a packet of the guest.
    pub(super) fn receive(&mut self, packet: &[u8]) {
        let mut port = Port { incoming: Some(packet), outbox: &mut self.outbox };
        while self.interface.poll_ingress_single(now(), &mut port, &mut self.sockets)
            != PollIngressSingleResult::None
        {}
    }

    /// Sends what can be sent. Says whether the guest has no room.
    pub(super) fn transmit(&mut self) -> bool {
        self.outbox.flush();
        let mut port = Port { incoming: None, outbox: &mut self.outbox };
        while self.interface.poll_egress(now(), &mut port, &mut self.sockets) != PollResult::None {}
        self.outbox.is_pending
    }

    /// When there is something to do next without a packet arriving: a retransmission or a delayed acknowledgement.
    pub(super) fn next_timer(&mut self) -> Option<Duration> {
        self.interface.poll_delay(now(), &self.sockets).map(Duration::from)
    }

    /// Frames that were sent since the last call.
    pub(super) fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.outbox.sent)
    }
}

/// Frames to the guest. One that does not fit its queue is kept, and nothing more is produced until it is sent.
struct Outbox {
    link: Arc<Link>,
    header: [u8; ETHERNET_HEADER],
    mtu: usize,
    frame: Vec<u8>,
    is_pending: bool,
    sent: u64,
}

impl Outbox {
    fn flush(&mut self) {
        if self.is_pending {
            self.send();
        }
    }

    fn send(&mut self) {
        self.is_pending = self.link.try_send(&self.frame) == Sent::Full;
        self.sent += u64::from(!self.is_pending);
    }
}

/// The interface's device for the length of one call.
struct Port<'a> {
    incoming: Option<&'a [u8]>,
    outbox: &'a mut Outbox,
}

impl Device for Port<'_> {
    type RxToken<'b>
        = Incoming<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outgoing<'b>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming<'_>, Outgoing<'_>)> {
        let packet = self.incoming.take()?;
        Some((Incoming(packet), Outgoing(self.outbox)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        (!self.outbox.is_pending).then_some(Outgoing(self.outbox))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.outbox.mtu;
        // Nothing can be damaged between two sockets of one kernel; the guest checks what it receives.
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

struct Incoming<'a>(&'a [u8]);

impl RxToken for Incoming<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Outgoing<'a>(&'a mut Outbox);

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let outbox = self.0;
        // An answer to a packet that arrives while a frame waits is lost; the guest sends the packet again.
        if outbox.is_pending {
            return f(&mut vec![0; len]);
        }
        outbox.frame.resize(ETHERNET_HEADER + len, 0);
        outbox.frame[..ETHERNET_HEADER].copy_from_slice(&outbox.header);
        let result = f(&mut outbox.frame[ETHERNET_HEADER..]);
        outbox.send();
        result
    }
}

/// A clock that never jumps; smoltcp's own follows the wall clock.
fn now() -> Instant {
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    Instant::from_micros(i64::try_from(START.elapsed().as_micros()).unwrap_or(i64::MAX))
}

/// Sequence numbers are chosen from this. Only the guest itself sees them.
fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the connection still works: a guest gains nothing by guessing its own sequence numbers.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK);
    u64::from_ne_bytes(bytes)
}
