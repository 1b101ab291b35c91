//! A guest: a TCP/IP stack on the machine's end of the card.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::task::Context;
use std::time::Duration;

use agentiso_net::MachineSpec;
use agentiso_net::plan::GATEWAY_MAC;
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint};
use tokio::net::UnixDatagram;

use super::PATIENCE;

const HEADER: usize = 14;

/// What became of a connection attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Connected {
    Yes(SocketHandle),
    Refused,
}

impl Connected {
    pub fn unwrap(self) -> SocketHandle {
        match self {
            Self::Yes(handle) => handle,
            Self::Refused => panic!("the connection was refused"),
        }
    }
}

pub struct Guest {
    pub address: Ipv4Addr,
    pub mac: [u8; 6],
    pub sockets: SocketSet<'static>,
    interface: Interface,
    wire: Wire,
    next_port: u16,
    /// What `offer` listens on.
    offered: Vec<SocketHandle>,
}

struct Wire {
    socket: UnixDatagram,
    header: [u8; HEADER],
    mtu: usize,
    incoming: VecDeque<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
}

impl Guest {
    /// A machine, and the router's end of its card.
    pub fn new(spec: &MachineSpec) -> (Self, OwnedFd) {
        let mac = spec.workspace.mac();
        let header: Vec<u8> = [&GATEWAY_MAC[..], &mac[..], &[8, 0]].concat();
        let (socket, router) = card();
        let mut wire = Wire {
            socket,
            header: header.try_into().unwrap(),
            mtu: spec.mtu,
            incoming: VecDeque::new(),
            outgoing: VecDeque::new(),
        };
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::now());
        interface.update_ip_addrs(|list| list.push(IpCidr::new(spec.address.into(), 0)).unwrap());
        let guest = Self {
            address: spec.address,
            mac,
            sockets: SocketSet::new(Vec::new()),
            interface,
            wire,
            next_port: 40_000,
            offered: Vec::new(),
        };
        (guest, router)
    }

    /// Whether the router has closed the card.
    pub fn is_unplugged(&self) -> bool {
        self.wire.socket.try_send(b"x").is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
    }

    /// Gives the machine a new card, as for a new router. Returns the router's end.
    pub fn replug(&mut self) -> OwnedFd {
        let (socket, router) = card();
        self.wire.socket = socket;
        router
    }

    /// Starts to connect.
    pub fn dial(&mut self, to: Ipv4Addr, port: u16, buffer: usize) -> SocketHandle {
        self.next_port += 1;
        let rings = || tcp::SocketBuffer::new(vec![0; buffer]);
        let mut socket = tcp::Socket::new(rings(), rings());
        socket.set_nagle_enabled(false);
        let from = IpEndpoint::new(self.address.into(), self.next_port);
        socket.connect(self.interface.context(), (to, port), from).unwrap();
        self.sockets.add(socket)
    }

    /// Connects, or is refused.
    pub async fn connect(&mut self, to: Ipv4Addr, port: u16) -> Connected {
        let handle = self.dial(to, port, 65_536);
        self.settled(handle).await
    }

    /// Waits until a connection attempt has an outcome.
    pub async fn settled(&mut self, handle: SocketHandle) -> Connected {
        self.until("a connection attempt has an outcome", |guest| match guest.tcp(handle).state() {
            tcp::State::SynSent => None,
            tcp::State::Closed => Some(Connected::Refused),
            _ => Some(Connected::Yes(handle)),
        })
        .await
    }

    /// Accepts connections on a port.
    pub fn listen(&mut self, port: u16) -> SocketHandle {
        let rings = || tcp::SocketBuffer::new(vec![0; 65_536]);
        let mut socket = tcp::Socket::new(rings(), rings());
        socket.listen(port).unwrap();
        self.sockets.add(socket)
    }

    pub fn tcp(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub async fn send(&mut self, handle: SocketHandle, mut data: &[u8]) {
        self.until("everything is sent", |guest| {
            let socket = guest.tcp(handle);
            while socket.can_send() && !data.is_empty() {
                data = &data[socket.send_slice(data).unwrap()..];
            }
            data.is_empty().then_some(())
        })
        .await
    }

    /// Receives until the peer ends the connection. Nothing if it was reset instead.
    pub async fn receive_all(&mut self, handle: SocketHandle) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        self.until("the peer ends the connection", |guest| {
            let socket = guest.tcp(handle);
            while socket.can_recv() {
                let read = socket.recv(|bytes| (bytes.len(), bytes.to_vec())).unwrap();
                data.extend(read);
            }
            match socket.recv(|_| (0, ())) {
                Err(tcp::RecvError::Finished) => Some(true),
                Err(tcp::RecvError::InvalidState) => Some(false),
                Ok(()) => None,
            }
        })
        .await
        .then_some(data)
    }

    pub async fn receive(&mut self, handle: SocketHandle, count: usize) -> Vec<u8> {
        let mut data = Vec::new();
        self.until("enough is received", |guest| {
            let socket = guest.tcp(handle);
            while socket.can_recv() && data.len() < count {
                let wanted = count - data.len();
                data.extend(
                    socket
                        .recv(|bytes| {
                            let length = bytes.len().min(wanted);
                            (length, bytes[..length].to_vec())
                        })
                        .unwrap(),
                );
            }
            (data.len() >= count).then_some(())
        })
        .await;
        data
    }

    pub fn udp(&mut self) -> SocketHandle {
        self.next_port += 1;
        let rings = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 200_000]);
        let mut socket = udp::Socket::new(rings(), rings());
        socket.bind((self.address, self.next_port)).unwrap();
        self.sockets.add(socket)
    }

    pub fn send_udp(&mut self, handle: SocketHandle, to: Ipv4Addr, port: u16, payload: &[u8]) {
        self.sockets.get_mut::<udp::Socket>(handle).send_slice(payload, (to, port)).unwrap();
    }

    pub async fn receive_udp(&mut self, handle: SocketHandle) -> (Vec<u8>, IpEndpoint) {
        self.until("a datagram arrives", |guest| {
            let (payload, from) = guest.sockets.get_mut::<udp::Socket>(handle).recv().ok()?;
            Some((payload.to_vec(), from.endpoint))
        })
        .await
    }

    /// Runs the stack until a condition holds.
    pub async fn until<T>(&mut self, what: &str, mut condition: impl FnMut(&mut Self) -> Option<T>) -> T {
        let waiting = async {
            loop {
                self.turn();
                let found = condition(self);
                // Only sends: what arrives now must be seen by the condition before it waits.
                self.transmit();
                if let Some(found) = found {
                    while !self.wire.outgoing.is_empty() {
                        self.wire.socket.writable().await.unwrap();
                        self.wire.flush();
                    }
                    return found;
                }
                let pause = self.interface.poll_delay(Instant::now(), &self.sockets).map(Duration::from);
                let pause = pause.unwrap_or(PATIENCE).max(Duration::from_micros(100));
                let is_blocked = !self.wire.outgoing.is_empty();
                tokio::select! {
                    _ = self.wire.socket.readable() => {}
                    _ = self.wire.socket.writable(), if is_blocked => {}
                    () = tokio::time::sleep(pause), if !is_blocked => {}
                }
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("in {PATIENCE:?} it did not happen that {what}"),
        }
    }

    /// Whether a frame waits, or the router has room for one that waits.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> bool {
        let arrived = self.wire.socket.poll_recv_ready(cx).is_ready() && self.wire.has_frame();
        let is_blocked = !self.wire.outgoing.is_empty();
        let has_room = is_blocked && self.wire.socket.poll_send_ready(cx).is_ready();
        arrived || has_room
    }

    /// How long nothing has to be done unless a frame arrives.
    pub fn delay(&mut self) -> Duration {
        let delay = self.interface.poll_delay(Instant::now(), &self.sockets).map(Duration::from);
        delay.unwrap_or(PATIENCE).max(Duration::from_micros(100))
    }

    pub fn turn(&mut self) {
        self.wire.flush();
        self.wire.fill();
        self.interface.poll(Instant::now(), &mut self.wire, &mut self.sockets);
        self.wire.flush();
    }

    pub fn transmit(&mut self) {
        while self.interface.poll_egress(Instant::now(), &mut self.wire, &mut self.sockets)
            != PollResult::None
        {}
        self.wire.flush();
    }

    /// Runs the stack for ever, for a guest that serves while another one is watched.
    pub async fn serve(&mut self) {
        loop {
            self.turn();
            let pause = self.interface.poll_delay(Instant::now(), &self.sockets).map(Duration::from);
            let _ = tokio::time::timeout(pause.unwrap_or(PATIENCE), self.wire.socket.readable()).await;
        }
    }

    /// Serves what another guest tries, for ever: TCP connections end with a greeting, datagrams are echoed.
    pub async fn offer(&mut self, port: u16, is_datagram: bool) {
        for old in std::mem::take(&mut self.offered) {
            self.sockets.remove(old);
        }
        let rings = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 4], vec![0; 4000]);
        let mut echo = udp::Socket::new(rings(), rings());
        echo.bind((self.address, if is_datagram { port } else { 1 })).unwrap();
        let echo = self.sockets.add(echo);
        let listener = (!is_datagram).then(|| self.listen(port));
        self.offered = [Some(echo), listener].into_iter().flatten().collect();
        let greeting = format!("hello from {}\n", self.address);
        loop {
            self.turn();
            let socket = self.sockets.get_mut::<udp::Socket>(echo);
            while let Ok((payload, from)) = socket.recv() {
                let payload = payload.to_vec();
                socket.send_slice(&payload, from.endpoint).unwrap();
            }
            if let Some(listener) = listener {
                let socket = self.tcp(listener);
                if socket.can_recv() && socket.may_send() {
                    socket.recv(|bytes| (bytes.len(), ())).unwrap();
                    socket.send_slice(greeting.as_bytes()).unwrap();
                    socket.close();
                }
            }
            self.transmit();
            let pause = self.interface.poll_delay(Instant::now(), &self.sockets).map(Duration::from);
            let _ = tokio::time::timeout(pause.unwrap_or(PATIENCE), self.wire.socket.readable()).await;
        }
    }

    /// Sends a frame as it is.
    pub async fn send_frame(&mut self, frame: &[u8]) {
        self.wire.socket.send(frame).await.unwrap();
    }

    /// The frames that have arrived.
    pub fn arrived(&mut self) -> Vec<Vec<u8>> {
        self.wire.fill();
        self.wire.incoming.drain(..).collect()
    }

    /// The next frame the router sends, whatever it is.
    pub async fn receive_frame(&mut self) -> Vec<u8> {
        let mut buffer = vec![0; 70_000];
        let length =
            tokio::time::timeout(PATIENCE, self.wire.socket.recv(&mut buffer)).await.unwrap().unwrap();
        buffer.truncate(length);
        buffer
    }
}

fn card() -> (UnixDatagram, OwnedFd) {
    let (guest, router) = UnixDatagram::pair().unwrap();
    (guest, router.into_std().unwrap().into())
}

impl Wire {
    /// Sends what the router has room for.
    fn flush(&mut self) {
        while let Some(frame) = self.outgoing.front() {
            match self.socket.try_send(frame) {
                Ok(_) => drop(self.outgoing.pop_front()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                // The router is gone: the frame is lost, as on any network.
                Err(_) => drop(self.outgoing.pop_front()),
            }
        }
    }

    /// Takes in a frame if there is one, so that the runtime notices when there is none.
    fn has_frame(&mut self) -> bool {
        self.fill();
        !self.incoming.is_empty()
    }

    /// Takes in what has arrived.
    fn fill(&mut self) {
        let mut buffer = vec![0; 70_000];
        while self.incoming.len() < 64 {
            match self.socket.try_recv(&mut buffer) {
                Ok(length) => self.incoming.push_back(buffer[..length].to_vec()),
                Err(_) => break,
            }
        }
    }
}

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        let frame = self.incoming.pop_front()?;
        Some((Incoming(frame), Outgoing { header: self.header, queue: &mut self.outgoing }))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Outgoing<'_>> {
        (self.outgoing.len() < 256).then_some(Outgoing { header: self.header, queue: &mut self.outgoing })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

struct Incoming(Vec<u8>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0[HEADER..])
    }
}

struct Outgoing<'a> {
    header: [u8; HEADER],
    queue: &'a mut VecDeque<Vec<u8>>,
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = self.header.to_vec();
        frame.resize(HEADER + len, 0);
        let result = f(&mut frame[HEADER..]);
        self.queue.push_back(frame);
        result
    }
}
