//! How flows leave the router: sockets of the host.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::pin::Pin;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use tokio::net::{TcpStream, UdpSocket};

use crate::host;

/// A connection that is being opened.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// The host's network, as the router uses it. Policy was asked before any of these is called.
pub trait Uplink: Send + Sync + 'static {
    /// Whether an address is one of the host's own.
    fn is_own_address(&self, address: Ipv4Addr) -> io::Result<bool>;

    /// Opens a TCP connection.
    fn connect(&self, to: SocketAddrV4) -> Connecting;

    /// Opens a UDP socket that sends to, and receives from, one address.
    fn datagram(&self, to: SocketAddrV4) -> io::Result<UdpSocket>;

    /// Opens a socket for echo requests to one address. Fails where the host allows none.
    fn ping(&self, to: Ipv4Addr) -> io::Result<UdpSocket>;
}

/// The network of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostUplink;

impl Uplink for HostUplink {
    fn is_own_address(&self, address: Ipv4Addr) -> io::Result<bool> {
        host::is_own_address(address)
    }

    fn connect(&self, to: SocketAddrV4) -> Connecting {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            Ok(stream)
        })
    }

    fn datagram(&self, to: SocketAddrV4) -> io::Result<UdpSocket> {
        connected(std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?, to)
    }

    fn ping(&self, to: Ipv4Addr) -> io::Result<UdpSocket> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, Some(ipproto::ICMP))?;
        connected(std::net::UdpSocket::from(socket), SocketAddrV4::new(to, 0))
    }
}

fn connected(socket: std::net::UdpSocket, to: SocketAddrV4) -> io::Result<UdpSocket> {
    socket.set_nonblocking(true)?;
    socket.connect(SocketAddr::V4(to))?;
    UdpSocket::from_std(socket)
}
