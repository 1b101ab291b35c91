//! An uplink that leads public addresses to servers on loopback.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Mutex;

use agentiso_net::{Connecting, Uplink};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

#[derive(Default)]
pub struct MappedUplink {
    servers: Mutex<HashMap<SocketAddrV4, SocketAddr>>,
    own: Mutex<HashSet<Ipv4Addr>>,
    /// What happens while the next flow is decided about.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl MappedUplink {
    pub fn map(&self, public: SocketAddrV4, server: SocketAddr) {
        self.servers.lock().unwrap().insert(public, server);
    }

    /// Says that an address is the host's own.
    pub fn own(&self, address: Ipv4Addr) {
        self.own.lock().unwrap().insert(address);
    }

    /// Does something while the next flow to an address outside is decided about: after its policy was read.
    pub fn meanwhile(&self, act: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(act));
    }

    /// A TCP server behind a public address.
    pub async fn listen(&self, address: Ipv4Addr, port: u16) -> TcpListener {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.map(SocketAddrV4::new(address, port), listener.local_addr().unwrap());
        listener
    }

    /// A UDP server behind a public address.
    pub async fn receive(&self, address: Ipv4Addr, port: u16) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        self.map(SocketAddrV4::new(address, port), socket.local_addr().unwrap());
        socket
    }

    fn find(&self, to: SocketAddrV4) -> io::Result<SocketAddr> {
        self.servers.lock().unwrap().get(&to).copied().ok_or_else(|| io::ErrorKind::HostUnreachable.into())
    }
}

impl Uplink for MappedUplink {
    fn is_own_address(&self, address: Ipv4Addr) -> io::Result<bool> {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|act| act());
        Ok(self.own.lock().unwrap().contains(&address))
    }

    fn connect(&self, to: SocketAddrV4) -> Connecting {
        let server = self.find(to);
        Box::pin(async move { TcpStream::connect(server?).await })
    }

    fn datagram(&self, to: SocketAddrV4) -> io::Result<UdpSocket> {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
        socket.set_nonblocking(true)?;
        socket.connect(self.find(to)?)?;
        UdpSocket::from_std(socket)
    }

    /// This host allows no pings.
    fn ping(&self, _to: Ipv4Addr) -> io::Result<UdpSocket> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}
