//! What arrived at the servers, and every packet on the wire before them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use tokio::io::unix::AsyncFd;

/// More is not remembered: a test that floods looks at the first packets, or counts them itself.
const REMEMBERED: usize = 200_000;
/// All protocols, in the order of the network.
const EVERY_PROTOCOL: u32 = (0x0003_u16.to_be()) as u32;

/// A request that a server received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// The address and port that was asked.
    pub to: SocketAddr,
    /// Who asked.
    pub from: SocketAddr,
    /// The name in the TLS handshake, if it was one.
    pub tls_name: Option<String>,
    /// The protocol: `HTTP/1.1`, `HTTP/2.0`, `DNS`, `DoT`, `UDP`.
    pub protocol: String,
    /// The host or the name that was asked for.
    pub host: String,
    /// The path, with its query.
    pub path: String,
    /// The header `authorization`.
    pub authorization: Option<String>,
}

/// A packet on the wire between host and internet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The sender.
    pub from: IpAddr,
    /// The receiver.
    pub to: IpAddr,
    /// The number of the transport protocol.
    pub protocol: u8,
    /// The destination port, for TCP and UDP.
    pub port: u16,
}

/// Everything that arrived so far.
#[derive(Clone, Default)]
pub struct Arrivals {
    requests: Arc<Mutex<Vec<Request>>>,
    packets: Arc<Mutex<Vec<Seen>>>,
}

impl Arrivals {
    /// The requests, in order.
    pub fn requests(&self) -> Vec<Request> {
        locked(&self.requests).clone()
    }

    /// The requests to one address.
    pub fn requests_to(&self, address: Ipv4Addr) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.to.ip() == address).collect()
    }

    /// The packets, in order.
    pub fn packets(&self) -> Vec<Seen> {
        locked(&self.packets).clone()
    }

    /// Whether a packet for this address was on the wire.
    pub fn was_sent(&self, to: Ipv4Addr) -> bool {
        locked(&self.packets).iter().any(|seen| seen.to == to)
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        locked(&self.requests).clear();
        locked(&self.packets).clear();
    }

    pub(super) fn request(&self, request: Request) {
        remember(&self.requests, request);
    }

    /// Remembers every packet that arrives in the namespace of this thread.
    pub(super) fn watch(&self) -> impl Future<Output = ()> + use<> {
        let protocol = std::num::NonZero::new(EVERY_PROTOCOL).map(rustix::net::Protocol::from_raw);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, protocol);
        // SAFETY: an `OwnedFd` names the same open descriptor for as long as it lives, and the `AsyncFd` owns it.
        let socket = unsafe { AsyncFd::register(socket.expect("a packet socket needs root")) };
        let socket: AsyncFd<OwnedFd> = socket.expect("a socket to wait for");
        let packets = Arc::clone(&self.packets);
        async move {
            let mut frame = vec![0; 70_000];
            loop {
                let mut ready = socket.readable().await.expect("a socket to wait for");
                loop {
                    match recv(&socket, &mut frame[..], RecvFlags::empty()) {
                        Ok((length, _)) => {
                            if let Some(seen) = parse(&frame[..length]) {
                                remember(&packets, seen);
                            }
                        }
                        Err(Errno::INTR) => {}
                        Err(_) => break,
                    }
                }
                ready.clear_ready();
            }
        }
    }
}

fn remember<T>(list: &Mutex<Vec<T>>, item: T) {
    let mut list = locked(list);
    if list.len() < REMEMBERED {
        list.push(item);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn parse(frame: &[u8]) -> Option<Seen> {
    let ethertype = u16::from_be_bytes(frame.get(12..14)?.try_into().ok()?);
    let packet = &frame[14..];
    let (from, to, protocol, payload): (IpAddr, IpAddr, u8, &[u8]) = match ethertype {
        0x0800 => {
            let address = |at: usize| -> Option<Ipv4Addr> {
                Some(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?.into())
            };
            let header = usize::from(packet.first()? & 15) * 4;
            (address(12)?.into(), address(16)?.into(), *packet.get(9)?, packet.get(header..)?)
        }
        0x86dd => {
            let address = |at: usize| -> Option<Ipv6Addr> {
                Some(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?.into())
            };
            (address(8)?.into(), address(24)?.into(), *packet.get(6)?, packet.get(40..)?)
        }
        _ => return None,
    };
    let port = match (protocol, payload.get(2..4)) {
        (6 | 17, Some(&[high, low])) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    Some(Seen { from, to, protocol, port })
}
