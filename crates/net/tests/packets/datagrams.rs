//! UDP and pings.

use agentiso_core::NetworkRules;
use agentiso_net::{Limits, LogEvent};
use agentiso_policy::egress::Policy;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet};

use crate::support::frames::{ip_frame, udp};
use crate::support::*;

/// The ICMP message in a frame, and who sent it.
fn icmp(frame: &[u8]) -> (std::net::Ipv4Addr, Vec<u8>) {
    let ip = Ipv4Packet::new_checked(&frame[14..]).unwrap();
    assert_eq!(ip.next_header(), IpProtocol::Icmp);
    (ip.src_addr(), ip.payload().to_vec())
}

fn code(frame: &[u8]) -> Icmpv4DstUnreachable {
    let (_, message) = icmp(frame);
    let packet = Icmpv4Packet::new_checked(&message).unwrap();
    assert_eq!(packet.msg_type(), Icmpv4Message::DstUnreachable);
    packet.msg_code().into()
}

fn ping(guest: &Guest, to: std::net::Ipv4Addr) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest { ident: 77, seq_no: 3, data: b"are you there" };
    let mut body = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut body), &ChecksumCapabilities::default());
    ip_frame(guest.mac, guest.address, to, 1, &body)
}

#[tokio::test]
async fn datagrams_pass_both_ways_and_answers_come_from_the_address_that_was_asked() {
    let net = Net::new();
    let server = net.uplink.receive(PUBLIC, 123).await;
    let mut guest = net.guest(2, online());
    let socket = guest.udp();
    guest.send_udp(socket, PUBLIC, 123, b"what time is it");
    let mut buffer = [0; 2000];
    let (length, from) = tokio::select! {
        received = server.recv_from(&mut buffer) => received.unwrap(),
        () = guest.serve() => unreachable!(),
    };
    assert_eq!(&buffer[..length], b"what time is it");
    for answer in [&b"late"[..], &[7; 1400]] {
        server.send_to(answer, from).await.unwrap();
        let (payload, from) = guest.receive_udp(socket).await;
        assert_eq!(payload, answer);
        assert_eq!(from, (PUBLIC, 123).into());
    }
    assert_eq!(net.router.machines()[0].counters.flows_open, 1);
    let opened = net.logged(LogEvent::Opened).await;
    assert_eq!((opened.address, opened.port), (Some(PUBLIC), 123));
}

#[tokio::test]
async fn a_refused_datagram_is_answered_at_once() {
    let net = Net::new();
    let mut guest = net.guest(2, NetworkRules::default());
    let frame = ip_frame(guest.mac, guest.address, PUBLIC, 17, &udp(5000, 123, b"hello"));
    guest.send_frame(&frame).await;
    assert_eq!(code(&guest.receive_frame().await), Icmpv4DstUnreachable::CommProhibited);
    assert_eq!(net.logged(LogEvent::Refused).await.rule, "allow_internet: false");
}

#[tokio::test]
async fn a_closed_port_and_a_missing_route_are_reported_to_the_guest() {
    let net = Net::new();
    drop(net.uplink.receive(PUBLIC, 123).await);
    let mut guest = net.guest(2, online());
    let frame = ip_frame(guest.mac, guest.address, PUBLIC, 17, &udp(5000, 123, b"hello"));
    guest.send_frame(&frame).await;
    assert_eq!(code(&guest.receive_frame().await), Icmpv4DstUnreachable::PortUnreachable);
    let frame = ip_frame(guest.mac, guest.address, OTHER_PUBLIC, 17, &udp(5000, 123, b"hello"));
    guest.send_frame(&frame).await;
    assert_eq!(code(&guest.receive_frame().await), Icmpv4DstUnreachable::HostUnreachable);
}

#[tokio::test]
async fn an_idle_flow_is_forgotten() {
    let net = Net::new();
    let _server = net.uplink.receive(PUBLIC, 123).await;
    let limits = Limits { udp_idle_seconds: 1, ..Limits::default() };
    let mut guest = net.guest_with(2, online(), limits, 1500);
    let frame = ip_frame(guest.mac, guest.address, PUBLIC, 17, &udp(5000, 123, b"hello"));
    guest.send_frame(&frame).await;
    let closed = net.logged(LogEvent::Closed).await;
    assert_eq!((closed.bytes_sent, closed.bytes_received), (5, 0));
    let deadline = std::time::Instant::now() + PATIENCE;
    while net.router.machines()[0].counters.flows_open > 0 {
        assert!(std::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_tightened_policy_ends_a_flow_of_datagrams() {
    let net = Net::new();
    let server = net.uplink.receive(PUBLIC, 123).await;
    let mut guest = net.guest(2, online());
    let frame = ip_frame(guest.mac, guest.address, PUBLIC, 17, &udp(5000, 123, b"hello"));
    guest.send_frame(&frame).await;
    let mut buffer = [0; 100];
    server.recv_from(&mut buffer).await.unwrap();
    net.router.set_policies(vec![(workspace(2), Policy::default())]).unwrap();
    assert_eq!(net.logged(LogEvent::Cut).await.port, 123);
    guest.send_frame(&frame).await;
    assert_eq!(code(&guest.receive_frame().await), Icmpv4DstUnreachable::CommProhibited);
}

#[tokio::test]
async fn the_gateway_answers_pings_and_a_host_without_ping_sockets_says_so() {
    let net = Net::new();
    let mut guest = net.guest(2, online());
    let frame = ping(&guest, GATEWAY);
    guest.send_frame(&frame).await;
    let (from, message) = icmp(&guest.receive_frame().await);
    let packet = Icmpv4Packet::new_checked(&message).unwrap();
    let reply = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default()).unwrap();
    assert_eq!(reply, Icmpv4Repr::EchoReply { ident: 77, seq_no: 3, data: b"are you there" });
    assert_eq!(from, GATEWAY);

    let frame = ping(&guest, PUBLIC);
    guest.send_frame(&frame).await;
    assert_eq!(code(&guest.receive_frame().await), Icmpv4DstUnreachable::CommProhibited);
    assert_eq!(net.logged(LogEvent::Failed).await.address, Some(PUBLIC));
}
