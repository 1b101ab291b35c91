//! UDP echo, and listeners on the port of DNS over TLS.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::spawn_local;

use super::arrivals::{Arrivals, Request};

/// The port of the echo service.
pub(super) const ECHO: u16 = 7;
/// DNS over TLS, and over QUIC.
const DNS_OVER_TLS: u16 = 853;

/// Echoes datagrams, and accepts connections for DNS over TLS. Both are remembered.
pub(super) async fn serve(address: Ipv4Addr, arrivals: &Arrivals) {
    for port in [ECHO, DNS_OVER_TLS] {
        let to = SocketAddr::from((address, port));
        let socket = UdpSocket::bind(to).await.expect("a port of the namespace");
        let seen = arrivals.clone();
        spawn_local(async move {
            let mut buffer = vec![0; 70_000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                seen.request(arrival(to, from, "UDP"));
                let _ = socket.send_to(&buffer[..length], from).await;
            }
        });
    }
    let to = SocketAddr::from((address, DNS_OVER_TLS));
    let listener = TcpListener::bind(to).await.expect("a port of the namespace");
    let seen = arrivals.clone();
    spawn_local(async move {
        while let Ok((_, from)) = listener.accept().await {
            seen.request(arrival(to, from, "DoT"));
        }
    });
}

fn arrival(to: SocketAddr, from: SocketAddr, protocol: &str) -> Request {
    let protocol = protocol.to_owned();
    Request {
        to,
        from,
        tls_name: None,
        protocol,
        host: String::new(),
        path: String::new(),
        authorization: None,
    }
}
