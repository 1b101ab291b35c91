//! Hostile frames, honest frames, and arbitrary bytes.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use smoltcp::wire::{
    ArpPacket, EthernetFrame, Icmpv4DstUnreachable, Icmpv4Message, Icmpv4Packet, IpProtocol, Ipv4Packet,
    TcpPacket, UdpPacket,
};

use super::*;
use crate::plan::GATEWAY_MAC;

const MAC: [u8; 6] = [0x52, 0x54, 1, 2, 3, 4];
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(93, 184, 216, 34);

fn card() -> Card {
    Card { mac: MAC, address: ADDRESS, gateway: GATEWAY, mtu: 1500 }
}

fn ethernet(destination: [u8; 6], source: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&destination[..], &source[..], &ethertype.to_be_bytes(), payload].concat()
}

fn from_guest(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(GATEWAY_MAC, MAC, ethertype, payload)
}

fn arp(operation: u16, mac: [u8; 6], address: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, operation as u8];
    [&head[..], &mac, &address.octets(), &[0; 6], &target.octets()].concat()
}

/// An IP packet with a correct header checksum, after `change` has been at it.
fn ip(protocol: u8, body: &[u8], change: impl FnOnce(&mut Ipv4Packet<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(body);
    let length = bytes.len() as u16;
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    packet.set_total_len(length);
    packet.set_src_addr(ADDRESS);
    packet.set_dst_addr(SERVER);
    change(&mut packet);
    packet.fill_checksum();
    bytes
}

fn udp(source: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&source.to_be_bytes()[..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

fn tcp(source: u16, port: u16, flags: u8) -> Vec<u8> {
    let head = [&source.to_be_bytes()[..], &port.to_be_bytes(), &[0, 0, 0, 7, 0, 0, 0, 9]].concat();
    [&head[..], &[0x50, flags, 1, 0, 0, 0, 0, 0]].concat()
}

fn echo(kind: u8, code: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [&[kind, code, 0, 0, 0, 5, 0, 6], payload].concat();
    Icmpv4Packet::new_unchecked(&mut bytes).fill_checksum();
    bytes
}

fn dropped(frame: &[u8]) -> Dropped {
    parse(&card(), frame).unwrap_err()
}

#[test]
fn honest_frames_are_understood() {
    let question = from_guest(0x0806, &arp(1, MAC, ADDRESS, GATEWAY));
    assert_eq!(parse(&card(), &question), Ok(Inbound::ArpRequest));

    let packet = ip(6, &tcp(40000, 443, 0x02), |_| ());
    let frame = from_guest(0x0800, &packet);
    let segment = Segment { source: 40000, port: 443, is_syn: true, is_reset: false, is_fin: false };
    assert_eq!(parse(&card(), &frame), Ok(Inbound::Tcp { to: SERVER, segment, packet: &packet }));

    let packet = ip(17, &udp(5000, 123, b"time"), |_| ());
    let mut padded = from_guest(0x0800, &packet);
    padded.resize(60, 0);
    let expected = Inbound::Udp { to: SERVER, source: 5000, port: 123, payload: b"time", packet: &packet };
    assert_eq!(parse(&card(), &padded), Ok(expected), "padding of a short frame is not part of the packet");

    let packet = ip(1, &echo(8, 0, b"ping"), |_| ());
    let frame = from_guest(0x0800, &packet);
    let expected = Inbound::Echo {
        to: SERVER,
        is_reply: false,
        ident: 5,
        sequence: 6,
        payload: b"ping",
        packet: &packet,
    };
    assert_eq!(parse(&card(), &frame), Ok(expected));
}

#[test]
fn hostile_frames_are_dropped_for_the_right_reason() {
    let syn = || tcp(40000, 443, 0x02);
    let good = ip(6, &syn(), |_| ());
    let other_mac = [0x52, 0x54, 9, 9, 9, 9];
    let other = Ipv4Addr::new(10, 99, 0, 3);
    let broadcast = [0xff; 6];
    let options = {
        let mut bytes =
            ip(6, &[&[0x83, 7, 4, 1, 2, 3, 4, 0], &syn()[..]].concat(), |packet| packet.set_header_len(28));
        Ipv4Packet::new_unchecked(&mut bytes).fill_checksum();
        bytes
    };
    let bad_checksum = {
        let mut bytes = good.clone();
        bytes[10] ^= 0xff;
        bytes
    };
    let table: Vec<(&str, Vec<u8>, Dropped)> = vec![
        ("empty", Vec::new(), Dropped::Malformed),
        ("a lone header", from_guest(0x0800, &[]), Dropped::Malformed),
        ("spoofed MAC", ethernet(GATEWAY_MAC, other_mac, 0x0800, &good), Dropped::SourceMac),
        ("the gateway's MAC", ethernet(GATEWAY_MAC, GATEWAY_MAC, 0x0800, &good), Dropped::SourceMac),
        ("another machine's MAC", ethernet(other_mac, MAC, 0x0800, &good), Dropped::DestinationMac),
        ("broadcast", ethernet(broadcast, MAC, 0x0800, &good), Dropped::DestinationMac),
        (
            "spoofed address",
            from_guest(0x0800, &ip(6, &syn(), |p| p.set_src_addr(other))),
            Dropped::SourceAddress,
        ),
        (
            "the gateway's address",
            from_guest(0x0800, &ip(6, &syn(), |p| p.set_src_addr(GATEWAY))),
            Dropped::SourceAddress,
        ),
        ("VLAN tag", from_guest(0x8100, &[&[0, 1, 8, 0], &good[..]].concat()), Dropped::Vlan),
        ("double VLAN tag", from_guest(0x88a8, &good), Dropped::Vlan),
        ("router advertisement", from_guest(0x86dd, &[0x60, 0, 0, 0, 0, 8, 58, 255]), Dropped::Ipv6),
        ("LLDP", from_guest(0x88cc, &good), Dropped::EtherType),
        ("ARP for a neighbour", from_guest(0x0806, &arp(1, MAC, ADDRESS, other)), Dropped::Arp),
        ("ARP with another address", from_guest(0x0806, &arp(1, MAC, other, GATEWAY)), Dropped::Arp),
        ("ARP with another MAC", from_guest(0x0806, &arp(1, other_mac, ADDRESS, GATEWAY)), Dropped::Arp),
        ("ARP reply as the gateway", from_guest(0x0806, &arp(2, MAC, GATEWAY, other)), Dropped::Arp),
        ("gratuitous ARP", from_guest(0x0806, &arp(1, MAC, GATEWAY, GATEWAY)), Dropped::Arp),
        ("cut ARP", from_guest(0x0806, &arp(1, MAC, ADDRESS, GATEWAY)[..20]), Dropped::Malformed),
        ("first fragment", from_guest(0x0800, &ip(6, &syn(), |p| p.set_more_frags(true))), Dropped::Fragment),
        ("last fragment", from_guest(0x0800, &ip(6, &syn(), |p| p.set_frag_offset(64))), Dropped::Fragment),
        ("source route", from_guest(0x0800, &options), Dropped::IpOptions),
        ("bad checksum", from_guest(0x0800, &bad_checksum), Dropped::Malformed),
        ("expired", from_guest(0x0800, &ip(6, &syn(), |p| p.set_hop_limit(0))), Dropped::Malformed),
        (
            "IPv6 in an IPv4 frame",
            from_guest(0x0800, &ip(6, &syn(), |p| p.set_version(6))),
            Dropped::Malformed,
        ),
        (
            "too short a header",
            from_guest(0x0800, &ip(6, &syn(), |p| p.set_header_len(16))),
            Dropped::Malformed,
        ),
        (
            "longer than the frame",
            from_guest(0x0800, &ip(6, &syn(), |p| p.set_total_len(900))),
            Dropped::Malformed,
        ),
        ("cut TCP header", from_guest(0x0800, &ip(6, &syn()[..12], |_| ())), Dropped::Malformed),
        ("port 0", from_guest(0x0800, &ip(6, &tcp(40000, 0, 2), |_| ())), Dropped::Malformed),
        ("cut UDP", from_guest(0x0800, &ip(17, &udp(5, 5, b"abcd")[..10], |_| ())), Dropped::Malformed),
        ("DHCP server", from_guest(0x0800, &ip(17, &udp(67, 68, b"offer"), |_| ())), Dropped::Dhcp),
        (
            "DHCP client",
            ethernet(
                broadcast,
                MAC,
                0x0800,
                &ip(17, &udp(68, 67, b"discover"), |p| {
                    p.set_src_addr(Ipv4Addr::UNSPECIFIED);
                    p.set_dst_addr(Ipv4Addr::BROADCAST);
                }),
            ),
            Dropped::Dhcp,
        ),
        ("ICMP redirect", from_guest(0x0800, &ip(1, &echo(5, 1, &good), |_| ())), Dropped::Icmp),
        ("ICMP router advertisement", from_guest(0x0800, &ip(1, &echo(9, 0, &good), |_| ())), Dropped::Icmp),
        ("ICMP unreachable", from_guest(0x0800, &ip(1, &echo(3, 1, &good), |_| ())), Dropped::Icmp),
        ("cut ICMP", from_guest(0x0800, &ip(1, &[8, 0, 0], |_| ())), Dropped::Malformed),
        ("SCTP", from_guest(0x0800, &ip(132, &[0; 20], |_| ())), Dropped::Protocol),
        ("IP in IP", from_guest(0x0800, &ip(4, &good, |_| ())), Dropped::Protocol),
        ("oversized", from_guest(0x0800, &ip(17, &udp(5, 5, &[0; 1500]), |_| ())), Dropped::Oversized),
    ];
    for (name, frame, reason) in table {
        assert_eq!(dropped(&frame), reason, "{name}");
    }
}

fn body(frame: &[u8]) -> Ipv4Packet<&[u8]> {
    let ethernet = EthernetFrame::new_checked(frame).unwrap();
    assert_eq!(ethernet.src_addr().0, GATEWAY_MAC);
    assert_eq!(ethernet.dst_addr().0, MAC);
    let ip = Ipv4Packet::new_checked(&frame[ETHERNET_HEADER..]).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!(ip.dst_addr(), ADDRESS);
    assert_eq!(usize::from(ip.total_len()), frame.len() - ETHERNET_HEADER);
    ip
}

#[test]
fn frames_to_the_guest_are_well_formed() {
    let framer = Framer::new(card());
    let reply = framer.arp_reply();
    let packet = ArpPacket::new_checked(&reply[ETHERNET_HEADER..]).unwrap();
    assert_eq!(packet.source_hardware_addr(), GATEWAY_MAC);
    assert_eq!(packet.source_protocol_addr(), GATEWAY.octets());

    let frame = framer.udp(SERVER, 53, 4000, b"answer").unwrap();
    let ip = body(&frame);
    assert_eq!((ip.src_addr(), ip.next_header()), (SERVER, IpProtocol::Udp));
    let udp = UdpPacket::new_checked(ip.payload()).unwrap();
    assert!(udp.verify_checksum(&SERVER.into(), &ADDRESS.into()));
    assert_eq!(udp.payload(), b"answer");
    assert!(framer.udp(SERVER, 53, 4000, &[0; 1473]).is_none(), "larger than the MTU");
    assert!(framer.udp(SERVER, 53, 4000, &[0; 1472]).is_some());

    let frame = framer.echo_reply(SERVER, 5, 6, b"pong").unwrap();
    let ip = body(&frame);
    let icmp = Icmpv4Packet::new_checked(ip.payload()).unwrap();
    assert!(icmp.verify_checksum());
    assert_eq!(
        (icmp.msg_type(), icmp.echo_ident(), icmp.data()),
        (Icmpv4Message::EchoReply, 5, &b"pong"[..])
    );
    assert!(framer.echo_reply(SERVER, 5, 6, &[0; 1480]).is_none());
}

#[test]
fn a_refused_segment_is_reset_and_a_reset_is_not_answered() {
    let framer = Framer::new(card());
    let frame = framer.reset(&ip(6, &tcp(40000, 443, 0x02), |_| ())).unwrap();
    let ip_packet = body(&frame);
    let reset = TcpPacket::new_checked(ip_packet.payload()).unwrap();
    assert!(reset.verify_checksum(&SERVER.into(), &ADDRESS.into()));
    assert!(reset.rst() && reset.ack());
    assert_eq!((reset.src_port(), reset.dst_port(), reset.ack_number().0), (443, 40000, 8));

    let frame = framer.reset(&ip(6, &tcp(40000, 443, 0x10), |_| ())).unwrap();
    let ip_packet = body(&frame);
    let reset = TcpPacket::new_checked(ip_packet.payload()).unwrap();
    assert!(reset.rst() && !reset.ack());
    assert_eq!(reset.seq_number().0, 9, "a reset of a segment with an acknowledgement continues it");

    assert!(framer.reset(&ip(6, &tcp(40000, 443, 0x04), |_| ())).is_none());
}

#[test]
fn an_undelivered_packet_is_quoted_back() {
    let framer = Framer::new(card());
    let packet = ip(17, &udp(5000, 123, b"time"), |_| ());
    for (why, code, from) in [
        (Unreachable::Prohibited, Icmpv4DstUnreachable::CommProhibited, GATEWAY),
        (Unreachable::Host, Icmpv4DstUnreachable::HostUnreachable, GATEWAY),
        (Unreachable::Port, Icmpv4DstUnreachable::PortUnreachable, SERVER),
    ] {
        let frame = framer.unreachable(&packet, why).unwrap();
        let ip_packet = body(&frame);
        assert_eq!(ip_packet.src_addr(), from);
        let icmp = Icmpv4Packet::new_checked(ip_packet.payload()).unwrap();
        assert!(icmp.verify_checksum());
        assert_eq!(icmp.msg_code(), u8::from(code));
        let quoted = Ipv4Packet::new_unchecked(icmp.data());
        assert_eq!((quoted.src_addr(), quoted.dst_addr()), (ADDRESS, SERVER));
        assert_eq!(UdpPacket::new_unchecked(&icmp.data()[20..]).dst_port(), 123);
    }
    assert!(framer.unreachable(&[1, 2, 3], Unreachable::Host).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_bytes_never_panic_and_never_escape_the_binding(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        check_any(&bytes);
    }

    /// Damaged honest frames reach deeper than arbitrary bytes.
    #[test]
    fn a_damaged_frame_never_panics_and_never_escapes_the_binding(
        kind in 0u8..4, cut in 0usize..120, damage in proptest::collection::vec((0usize..120, any::<u8>()), 0..6)
    ) {
        let mut frame = match kind {
            0 => from_guest(0x0806, &arp(1, MAC, ADDRESS, GATEWAY)),
            1 => from_guest(0x0800, &ip(6, &tcp(40000, 443, 2), |_| ())),
            2 => from_guest(0x0800, &ip(17, &udp(5000, 123, b"time and more"), |_| ())),
            _ => from_guest(0x0800, &ip(1, &echo(8, 0, b"ping and more"), |_| ())),
        };
        let length = frame.len();
        for (at, value) in damage {
            frame[at % length] = value;
        }
        frame.truncate(length.saturating_sub(cut % 40));
        check_any(&frame);
    }
}

fn check_any(bytes: &[u8]) {
    if let Ok(inbound) = parse(&card(), bytes) {
        assert_eq!(bytes[6..12], MAC);
        let framer = Framer::new(card());
        match inbound {
            Inbound::ArpRequest => {}
            Inbound::Tcp { packet, .. } | Inbound::Udp { packet, .. } | Inbound::Echo { packet, .. } => {
                assert_eq!(bytes[..6], GATEWAY_MAC);
                assert_eq!(packet[12..16], ADDRESS.octets());
                framer.unreachable(packet, Unreachable::Prohibited).unwrap();
            }
        }
        if let Inbound::Tcp { packet, segment, .. } = inbound {
            assert_eq!(framer.reset(packet).is_none(), segment.is_reset);
        }
    }
}
