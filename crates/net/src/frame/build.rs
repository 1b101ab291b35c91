//! Builds the frames that a machine receives.

use std::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl,
    TcpPacket, TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};

use super::{Card, ETHERNET_HEADER};
use crate::plan::GATEWAY_MAC;

/// An IP header without options; packets with options are dropped.
const IPV4_HEADER: usize = 20;
const HOP_LIMIT: u8 = 64;
/// As much of a refused packet as its sender gets back: the IP header and the ports.
const QUOTED: usize = 8;

/// Why a packet could not be delivered, as its sender is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unreachable {
    /// Policy refuses it.
    Prohibited,
    /// Nobody listens.
    Port,
    /// The host has no route to it.
    Host,
}

/// Builds frames for one machine.
#[derive(Clone, Copy, Debug)]
pub struct Framer {
    card: Card,
}

impl Framer {
    /// A builder of frames to this card.
    pub fn new(card: Card) -> Self {
        Self { card }
    }

    /// The Ethernet header of every frame to the machine.
    pub fn header(&self) -> [u8; ETHERNET_HEADER] {
        self.header_of(EthernetProtocol::Ipv4)
    }

    fn header_of(&self, ethertype: EthernetProtocol) -> [u8; ETHERNET_HEADER] {
        let mut header = [0; ETHERNET_HEADER];
        EthernetRepr {
            src_addr: EthernetAddress(GATEWAY_MAC),
            dst_addr: EthernetAddress(self.card.mac),
            ethertype,
        }
        .emit(&mut EthernetFrame::new_unchecked(&mut header));
        header
    }

    /// Wraps a whole IP packet.
    pub fn wrap(&self, packet: &[u8]) -> Vec<u8> {
        [&self.header(), packet].concat()
    }

    /// The answer to the machine's question for the gateway's MAC address.
    pub fn arp_reply(&self) -> Vec<u8> {
        let repr = ArpRepr::EthernetIpv4 {
            operation: ArpOperation::Reply,
            source_hardware_addr: EthernetAddress(GATEWAY_MAC),
            source_protocol_addr: self.card.gateway,
            target_hardware_addr: EthernetAddress(self.card.mac),
            target_protocol_addr: self.card.address,
        };
        let mut frame = self.header_of(EthernetProtocol::Arp).to_vec();
        frame.resize(ETHERNET_HEADER + repr.buffer_len(), 0);
        repr.emit(&mut ArpPacket::new_unchecked(&mut frame[ETHERNET_HEADER..]));
        frame
    }

    /// A UDP datagram, or nothing if it does not fit the card's MTU.
    pub fn udp(&self, from: Ipv4Addr, source: u16, port: u16, payload: &[u8]) -> Option<Vec<u8>> {
        let repr = UdpRepr { src_port: source, dst_port: port };
        let length = repr.header_len() + payload.len();
        if length + 20 > self.card.mtu {
            return None;
        }
        Some(self.ipv4(from, IpProtocol::Udp, length, |body| {
            repr.emit(
                &mut UdpPacket::new_unchecked(body),
                &IpAddress::Ipv4(from),
                &IpAddress::Ipv4(self.card.address),
                payload.len(),
                |buffer| buffer.copy_from_slice(payload),
                &ChecksumCapabilities::default(),
            );
        }))
    }

    /// An echo reply, or nothing if it does not fit the card's MTU.
    pub fn echo_reply(&self, from: Ipv4Addr, ident: u16, sequence: u16, payload: &[u8]) -> Option<Vec<u8>> {
        let repr = Icmpv4Repr::EchoReply { ident, seq_no: sequence, data: payload };
        (repr.buffer_len() + 20 <= self.card.mtu).then(|| self.icmp(from, &repr))
    }

    /// Tells the machine that a packet of its own, of which the start is enough, was not delivered.
    pub fn unreachable(&self, packet: &[u8], why: Unreachable) -> Option<Vec<u8>> {
        let (header, body) = packet.split_at_checked(IPV4_HEADER)?;
        let ip = Ipv4Packet::new_unchecked(header);
        let header = Ipv4Repr {
            src_addr: ip.src_addr(),
            dst_addr: ip.dst_addr(),
            next_header: ip.next_header(),
            payload_len: usize::from(ip.total_len()).saturating_sub(IPV4_HEADER),
            hop_limit: ip.hop_limit(),
        };
        let reason = match why {
            Unreachable::Prohibited => Icmpv4DstUnreachable::CommProhibited,
            Unreachable::Port => Icmpv4DstUnreachable::PortUnreachable,
            Unreachable::Host => Icmpv4DstUnreachable::HostUnreachable,
        };
        let data = body.get(..QUOTED).unwrap_or(body);
        // A closed port is reported by the machine that has it, everything else by the router.
        let from = if why == Unreachable::Port { header.dst_addr } else { self.card.gateway };
        Some(self.icmp(from, &Icmpv4Repr::DstUnreachable { reason, header, data }))
    }

    /// The reset that refuses a TCP segment of the machine. A reset itself has none.
    pub fn reset(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let ip = Ipv4Packet::new_checked(packet).ok()?;
        let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
        if tcp.rst() {
            return None;
        }
        let length = tcp.segment_len();
        let repr = TcpRepr {
            src_port: tcp.dst_port(),
            dst_port: tcp.src_port(),
            control: TcpControl::Rst,
            seq_number: if tcp.ack() { tcp.ack_number() } else { TcpSeqNumber(0) },
            ack_number: (!tcp.ack()).then(|| tcp.seq_number() + length),
            window_len: 0,
            window_scale: None,
            max_seg_size: None,
            sack_permitted: false,
            sack_ranges: [None; 3],
            timestamp: None,
            payload: &[],
        };
        let from = ip.dst_addr();
        Some(self.ipv4(from, IpProtocol::Tcp, repr.buffer_len(), |body| {
            repr.emit(
                &mut TcpPacket::new_unchecked(body),
                &IpAddress::Ipv4(from),
                &IpAddress::Ipv4(self.card.address),
                &ChecksumCapabilities::default(),
            );
        }))
    }

    fn icmp(&self, from: Ipv4Addr, repr: &Icmpv4Repr<'_>) -> Vec<u8> {
        self.ipv4(from, IpProtocol::Icmp, repr.buffer_len(), |body| {
            repr.emit(&mut Icmpv4Packet::new_unchecked(body), &ChecksumCapabilities::default());
        })
    }

    fn ipv4(
        &self,
        from: Ipv4Addr,
        next_header: IpProtocol,
        length: usize,
        emit: impl FnOnce(&mut [u8]),
    ) -> Vec<u8> {
        let repr = Ipv4Repr {
            src_addr: from,
            dst_addr: self.card.address,
            next_header,
            payload_len: length,
            hop_limit: HOP_LIMIT,
        };
        let mut frame = self.header().to_vec();
        frame.resize(ETHERNET_HEADER + repr.buffer_len() + length, 0);
        let (header, body) = frame[ETHERNET_HEADER..].split_at_mut(repr.buffer_len());
        emit(body);
        emit_header(&repr, header);
        frame
    }
}

/// Writes the header alone: the packet's length is in it, so the buffer need not hold the body.
fn emit_header(repr: &Ipv4Repr, header: &mut [u8]) {
    repr.emit(&mut Ipv4Packet::new_unchecked(header), &ChecksumCapabilities::default());
}
