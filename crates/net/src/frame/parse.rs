//! Parses a guest's frame, or says why it is dropped.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, Icmpv4Message,
    Icmpv4Packet, IpProtocol, Ipv4Packet, TcpPacket, UdpPacket,
};

use super::{Card, ETHERNET_HEADER};
use crate::plan::GATEWAY_MAC;

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// A header is cut off or contradicts itself.
    Malformed,
    /// Larger than the card's MTU allows.
    Oversized,
    /// The source MAC address is not the machine's.
    SourceMac,
    /// The source IP address is not the machine's.
    SourceAddress,
    /// Not addressed to the gateway: broadcast, multicast or another machine.
    DestinationMac,
    /// A VLAN tag.
    Vlan,
    /// An ARP packet other than the machine's own question for the gateway.
    Arp,
    /// IPv6, including router advertisements and neighbour discovery.
    Ipv6,
    /// Neither ARP nor IP.
    EtherType,
    /// A part of a fragmented packet.
    Fragment,
    /// IP options, such as source routes.
    IpOptions,
    /// DHCP: addresses are set by the agent.
    Dhcp,
    /// ICMP other than echo, such as redirects.
    Icmp,
    /// A transport other than TCP, UDP and ICMP.
    Protocol,
    /// More packets per second than allowed.
    PacketRate,
    /// More bytes per second than allowed.
    Bandwidth,
    /// More queries per second than allowed.
    QueryRate,
    /// The guest or a neighbour does not read its frames.
    Backlog,
}

/// The ports and flags of a TCP segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment {
    /// The guest's port.
    pub source: u16,
    /// The port it sends to.
    pub port: u16,
    /// Opens a connection.
    pub is_syn: bool,
    /// Is itself a reset, which is never answered.
    pub is_reset: bool,
    /// Ends the sender's direction.
    pub is_fin: bool,
}

/// A frame that may be acted on. Its source is the machine.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inbound<'a> {
    /// The machine asks for the gateway's MAC address.
    ArpRequest,
    /// A TCP segment; `packet` is the whole IP packet.
    Tcp {
        /// The address it is sent to.
        to: Ipv4Addr,
        /// Its ports and flags.
        segment: Segment,
        /// The IP packet.
        packet: &'a [u8],
    },
    /// A UDP datagram.
    Udp {
        /// The address it is sent to.
        to: Ipv4Addr,
        /// The guest's port.
        source: u16,
        /// The port it is sent to.
        port: u16,
        /// What it carries.
        payload: &'a [u8],
        /// The IP packet.
        packet: &'a [u8],
    },
    /// An echo request, or a reply to one that a neighbour sent.
    Echo {
        /// The address it is sent to.
        to: Ipv4Addr,
        /// Whether it is a reply.
        is_reply: bool,
        /// The identifier.
        ident: u16,
        /// The sequence number.
        sequence: u16,
        /// What it carries.
        payload: &'a [u8],
        /// The IP packet.
        packet: &'a [u8],
    },
}

const DHCP_PORTS: [u16; 2] = [67, 68];
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Parses a frame that the machine with this card sent.
pub fn parse<'a>(card: &Card, frame: &'a [u8]) -> Result<Inbound<'a>, Dropped> {
    if frame.len() > card.mtu + ETHERNET_HEADER {
        return Err(Dropped::Oversized);
    }
    let ethernet = EthernetFrame::new_checked(frame).map_err(|_| Dropped::Malformed)?;
    if ethernet.src_addr() != EthernetAddress(card.mac) {
        return Err(Dropped::SourceMac);
    }
    let to_gateway = ethernet.dst_addr() == EthernetAddress(GATEWAY_MAC);
    match ethernet.ethertype() {
        EthernetProtocol::Arp => parse_arp(card, ethernet.payload()),
        EthernetProtocol::Ipv4 if is_dhcp(ethernet.payload()) => Err(Dropped::Dhcp),
        EthernetProtocol::Ipv4 if to_gateway => parse_ipv4(card, ethernet.payload()),
        EthernetProtocol::Ipv4 => Err(Dropped::DestinationMac),
        EthernetProtocol::Ipv6 => Err(Dropped::Ipv6),
        EthernetProtocol::Unknown(tag) if VLAN.contains(&tag) => Err(Dropped::Vlan),
        EthernetProtocol::Unknown(_) => Err(Dropped::EtherType),
    }
}

fn parse_arp<'a>(card: &Card, payload: &[u8]) -> Result<Inbound<'a>, Dropped> {
    let packet = ArpPacket::new_checked(payload).map_err(|_| Dropped::Malformed)?;
    let ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr,
        source_protocol_addr,
        target_protocol_addr,
        ..
    } = ArpRepr::parse(&packet).map_err(|_| Dropped::Malformed)?
    else {
        return Err(Dropped::Arp);
    };
    let is_own = source_hardware_addr == EthernetAddress(card.mac) && source_protocol_addr == card.address;
    if operation == ArpOperation::Request && is_own && target_protocol_addr == card.gateway {
        Ok(Inbound::ArpRequest)
    } else {
        Err(Dropped::Arp)
    }
}

/// DHCP comes from 0.0.0.0 to the broadcast address, so it is recognised before those are refused.
fn is_dhcp(payload: &[u8]) -> bool {
    let Ok(ip) = Ipv4Packet::new_checked(payload) else { return false };
    let Ok(udp) = UdpPacket::new_checked(ip.payload()) else { return false };
    ip.next_header() == IpProtocol::Udp
        && DHCP_PORTS.contains(&udp.src_port())
        && DHCP_PORTS.contains(&udp.dst_port())
}

fn parse_ipv4<'a>(card: &Card, payload: &'a [u8]) -> Result<Inbound<'a>, Dropped> {
    let ip = Ipv4Packet::new_checked(payload).map_err(|_| Dropped::Malformed)?;
    if ip.version() != 4 || usize::from(ip.header_len()) < 20 || ip.hop_limit() == 0 || !ip.verify_checksum()
    {
        return Err(Dropped::Malformed);
    }
    if ip.src_addr() != card.address {
        return Err(Dropped::SourceAddress);
    }
    if ip.header_len() > 20 {
        return Err(Dropped::IpOptions);
    }
    if ip.more_frags() || ip.frag_offset() != 0 {
        return Err(Dropped::Fragment);
    }
    // An Ethernet frame may be padded: the packet ends where its header says.
    let packet = payload.get(..usize::from(ip.total_len())).ok_or(Dropped::Malformed)?;
    let body = packet.get(usize::from(ip.header_len())..).ok_or(Dropped::Malformed)?;
    let to = ip.dst_addr();
    match ip.next_header() {
        IpProtocol::Tcp => parse_tcp(to, packet, body),
        IpProtocol::Udp => parse_udp(to, packet, body),
        IpProtocol::Icmp => parse_icmp(to, packet, body),
        _ => Err(Dropped::Protocol),
    }
}

fn parse_tcp<'a>(to: Ipv4Addr, packet: &'a [u8], body: &[u8]) -> Result<Inbound<'a>, Dropped> {
    let tcp = TcpPacket::new_checked(body).map_err(|_| Dropped::Malformed)?;
    if tcp.src_port() == 0 || tcp.dst_port() == 0 {
        return Err(Dropped::Malformed);
    }
    let segment = Segment {
        source: tcp.src_port(),
        port: tcp.dst_port(),
        is_syn: tcp.syn() && !tcp.ack() && !tcp.fin() && !tcp.rst(),
        is_reset: tcp.rst(),
        is_fin: tcp.fin(),
    };
    Ok(Inbound::Tcp { to, segment, packet })
}

fn parse_udp<'a>(to: Ipv4Addr, packet: &'a [u8], body: &'a [u8]) -> Result<Inbound<'a>, Dropped> {
    let udp = UdpPacket::new_checked(body).map_err(|_| Dropped::Malformed)?;
    if udp.src_port() == 0 || udp.dst_port() == 0 {
        return Err(Dropped::Malformed);
    }
    Ok(Inbound::Udp { to, source: udp.src_port(), port: udp.dst_port(), payload: udp.payload(), packet })
}

fn parse_icmp<'a>(to: Ipv4Addr, packet: &'a [u8], body: &'a [u8]) -> Result<Inbound<'a>, Dropped> {
    let icmp = Icmpv4Packet::new_checked(body).map_err(|_| Dropped::Malformed)?;
    let is_reply = match (icmp.msg_type(), icmp.msg_code()) {
        (Icmpv4Message::EchoRequest, 0) => false,
        (Icmpv4Message::EchoReply, 0) => true,
        _ => return Err(Dropped::Icmp),
    };
    if !icmp.verify_checksum() {
        return Err(Dropped::Malformed);
    }
    let (ident, sequence) = (icmp.echo_ident(), icmp.echo_seq_no());
    Ok(Inbound::Echo { to, is_reply, ident, sequence, payload: icmp.data(), packet })
}
