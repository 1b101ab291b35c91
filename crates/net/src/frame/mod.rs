//! Ethernet frames: what a guest may send, and what is sent to it.
//!
//! A guest is hostile: a frame is used only if its source MAC and IP addresses are the machine's own, it is addressed to
//! the gateway, and every header is whole. Everything else is dropped and counted by reason.

mod build;
mod parse;

pub use build::{Framer, Unreachable};
pub use parse::{Dropped, Inbound, Segment, parse};

#[cfg(test)]
mod tests;

use std::net::Ipv4Addr;

/// An Ethernet header without a VLAN tag.
pub const ETHERNET_HEADER: usize = 14;

/// The largest MTU of a card: an IP packet of 64 KiB less the headers that a host may add.
pub const MAX_MTU: usize = 65_520;

/// The smallest MTU of a card.
pub const MIN_MTU: usize = 1_280;

/// What a machine's card may use.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Card {
    /// The machine's MAC address.
    pub mac: [u8; 6],
    /// The machine's IP address.
    pub address: Ipv4Addr,
    /// The router's address, as the machine sees it.
    pub gateway: Ipv4Addr,
    /// The largest IP packet in either direction.
    pub mtu: usize,
}
