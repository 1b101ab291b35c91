//! Frames by hand.

use std::net::Ipv4Addr;

use agentiso_net::plan::GATEWAY_MAC;
use smoltcp::wire::Ipv4Packet;

/// A frame to the gateway with an IP packet.
pub fn ip_frame(mac: [u8; 6], from: Ipv4Addr, to: Ipv4Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    frame(GATEWAY_MAC, mac, 0x0800, &ip(from, to, protocol, body))
}

pub fn frame(to: [u8; 6], from: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &from[..], &ethertype.to_be_bytes(), payload].concat()
}

/// An IP packet with a correct checksum.
pub fn ip(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol][..], &[0; 10], body].concat();
    let length = bytes.len() as u16;
    let mut packet = Ipv4Packet::new_unchecked(&mut bytes);
    packet.set_total_len(length);
    packet.set_src_addr(from);
    packet.set_dst_addr(to);
    packet.fill_checksum();
    bytes
}

/// Corrects the checksum of an IP packet that was changed.
pub fn fix_checksum(packet: &mut [u8]) {
    Ipv4Packet::new_unchecked(packet).fill_checksum();
}

pub fn udp(source: u16, port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    [&source.to_be_bytes()[..], &port.to_be_bytes(), &length.to_be_bytes(), &[0, 0], payload].concat()
}

pub fn arp(operation: u8, mac: [u8; 6], address: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    [&[0, 1, 8, 0, 6, 4, 0, operation][..], &mac, &address.octets(), &[0; 6], &target.octets()].concat()
}

/// The first segment of a connection. Its checksum is that of no addresses: only filters look at it.
pub fn syn(source: u16, port: u16) -> Vec<u8> {
    let ports = [source.to_be_bytes(), port.to_be_bytes()].concat();
    [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]].concat()
}
