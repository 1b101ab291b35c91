//! The router with the host's real sockets, between network namespaces: one is the host, the other the internet.
//!
//! ```text
//!  guest ── card ── router │ namespace "host" │ veth │ namespace "internet"
//!                          │   198.41.0.1     │      │  198.41.0.2, 93.184.216.34, 10.1.2.3, 169.254.169.254
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a network that cannot be set up fails the test"
)]

#[path = "packets/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the other tests use the rest")]
mod support;

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc;

use agentiso_core::NetworkRules;
use agentiso_net::{HostUplink, Limits, LogEvent, Router};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Icmpv4Repr, Ipv4Packet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

use support::*;

const HOST: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 1);
const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(5, 5, 5, 5);

/// Two namespaces, removed at the end.
struct Namespaces {
    host: String,
    internet: String,
}

impl Namespaces {
    fn new() -> Self {
        let id = std::process::id();
        let names = Self { host: format!("agentiso-h{id}"), internet: format!("agentiso-i{id}") };
        let (host, internet) = (&names.host, &names.internet);
        for name in [host, internet] {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
        }
        ip(&format!("link add veth0 netns {host} type veth peer name veth0 netns {internet}"));
        ip(&format!("-n {host} addr add 198.41.0.1/24 dev veth0"));
        ip(&format!("-n {internet} addr add 198.41.0.2/24 dev veth0"));
        for name in [host, internet] {
            ip(&format!("-n {name} link set veth0 up"));
        }
        for address in [PUBLIC, PRIVATE, METADATA] {
            ip(&format!("-n {internet} addr add {address}/32 dev lo"));
            ip(&format!("-n {host} route add {address}/32 via 198.41.0.2"));
        }
        names
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [&self.host, &self.internet] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("the program `ip` is needed");
    assert!(status.success(), "ip {arguments}: this test needs root");
}

/// Runs a future in a thread that is in a namespace.
fn in_namespace<F: Future<Output = ()>>(
    name: &str,
    body: impl FnOnce() -> F + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let file = File::open(format!("/run/netns/{name}")).unwrap();
    std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(body());
    })
}

/// Echoes on TCP port 80 of every address of the namespace, and on UDP port 123 of one.
async fn echo_server(address: Ipv4Addr, ready: mpsc::Sender<()>) {
    let tcp = TcpListener::bind("0.0.0.0:80").await.unwrap();
    let udp = UdpSocket::bind((address, 123)).await.unwrap();
    ready.send(()).unwrap();
    let datagrams = async {
        let mut buffer = [0; 2000];
        loop {
            let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
            udp.send_to(&buffer[..length], from).await.unwrap();
        }
    };
    let streams = async {
        loop {
            let (mut stream, _) = tcp.accept().await.unwrap();
            tokio::spawn(async move {
                let mut request = [0; 4];
                if stream.read_exact(&mut request).await.is_ok() {
                    stream.write_all(&request).await.unwrap();
                }
            });
        }
    };
    tokio::join!(datagrams, streams);
}

#[test]
fn the_table_holds_with_the_hosts_own_sockets() {
    let names = Namespaces::new();
    let (ready, is_ready) = mpsc::channel();
    for (name, address) in [(&names.internet, PUBLIC), (&names.host, HOST)] {
        let ready = ready.clone();
        // Ends with the process.
        drop(in_namespace(name, move || echo_server(address, ready)));
    }
    is_ready.recv().unwrap();
    is_ready.recv().unwrap();
    in_namespace(&names.host, || async {
        // The gateway's namespace allows pings of everybody.
        std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647").unwrap();
        tcp_and_udp().await;
        pings().await;
    })
    .join()
    .unwrap();
}

fn real_net() -> Net {
    Net::with_router(Router::new(settings(Vec::new()), Arc::new(HostUplink)))
}

async fn tcp_and_udp() {
    let named = |range: &str| NetworkRules { allow_cidrs: Some(strings(&[range])), ..online() };
    let table = [
        ("the internet", online(), PUBLIC, "allowed: allow_internet: true"),
        ("the host's address", online(), HOST, "refused: closed by default: an address of the host"),
        (
            "the host's address, in a range",
            named("198.41.0.0/24"),
            HOST,
            "refused: closed by default: an address of the host",
        ),
        ("the host's address, named", named("198.41.0.1"), HOST, "allowed: allow_cidrs: 198.41.0.1/32"),
        (
            "the host's loopback",
            online(),
            Ipv4Addr::LOCALHOST,
            "refused: closed by default: a loopback address",
        ),
        ("a private server", online(), PRIVATE, "refused: closed by default: a private address"),
        ("a private server, named", named("10.1.2.3"), PRIVATE, "allowed: allow_cidrs: 10.1.2.3/32"),
        ("metadata", online(), METADATA, "refused: closed by default: a cloud metadata address"),
        ("nothing", NetworkRules::default(), PUBLIC, "refused: allow_internet: false"),
    ];
    for (name, policy, to, expected) in table {
        let net = real_net();
        let mut guest = net.guest(2, policy);
        let connected = guest.connect(to, 80).await;
        let (verdict, event) = match connected {
            Connected::Refused => ("refused", LogEvent::Refused),
            Connected::Yes(_) => ("allowed", LogEvent::Opened),
        };
        assert_eq!(format!("{verdict}: {}", net.logged(event).await.rule), expected, "{name}");
        if let Connected::Yes(connection) = connected {
            guest.send(connection, b"ping").await;
            assert_eq!(guest.receive(connection, 4).await, b"ping", "{name}");
        }
    }

    let net = real_net();
    let mut guest = net.guest_with(2, online(), Limits::default(), 1500);
    let socket = guest.udp();
    guest.send_udp(socket, PUBLIC, 123, b"time?");
    assert_eq!(guest.receive_udp(socket).await, (b"time?".to_vec(), (PUBLIC, 123).into()));

    guest.dial(NOWHERE, 80, 1000);
    guest
        .until("the attempt is made", |_| net.router.machines()[0].counters.flows_opened.eq(&2).then_some(()))
        .await;
    let failed = net.logged(LogEvent::Failed).await;
    assert_eq!(failed.address, Some(NOWHERE), "no route: allowed by policy, but it fails at once");
}

async fn pings() {
    let net = real_net();
    let mut guest = net.guest(2, online());
    guest.send_frame(&ping(&guest.mac.clone(), guest.address, PUBLIC)).await;
    let frame = guest.receive_frame().await;
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!(packet.src_addr(), PUBLIC);
    let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
    let reply = Icmpv4Repr::parse(&message, &ChecksumCapabilities::default()).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: 4242, seq_no: 9, data: b"are you there" });

    // A host that allows nobody to ping: the guest is told.
    std::fs::write("/proc/sys/net/ipv4/ping_group_range", "1 0").unwrap();
    let net = real_net();
    let mut guest = net.guest(2, online());
    guest.send_frame(&ping(&guest.mac.clone(), guest.address, PUBLIC)).await;
    let frame = guest.receive_frame().await;
    let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
    assert_eq!((message.msg_type(), message.msg_code()), (Icmpv4Message::DstUnreachable, 13));
}

fn ping(mac: &[u8; 6], from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest { ident: 4242, seq_no: 9, data: b"are you there" };
    let mut body = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut body), &ChecksumCapabilities::default());
    frames::ip_frame(*mac, from, to, 1, &body)
}
