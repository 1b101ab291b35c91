//! Any frame of a guest is dropped, or is the machine's own and addressed to the gateway.

#![no_main]

use std::net::Ipv4Addr;

use agentiso_net::frame::{Card, Framer, Inbound, Unreachable, parse};
use libfuzzer_sys::fuzz_target;

const CARD: Card = Card {
    mac: [0x52, 0x54, 1, 2, 3, 4],
    address: Ipv4Addr::new(10, 99, 0, 2),
    gateway: Ipv4Addr::new(10, 99, 0, 1),
    mtu: 1500,
};

fuzz_target!(|bytes: &[u8]| {
    let Ok(inbound) = parse(&CARD, bytes) else { return };
    assert_eq!(bytes[6..12], CARD.mac);
    match inbound {
        Inbound::ArpRequest => {}
        Inbound::Tcp { packet, .. } | Inbound::Udp { packet, .. } | Inbound::Echo { packet, .. } => {
            assert_eq!(packet[12..16], CARD.address.octets());
            assert!(Framer::new(CARD).unreachable(packet, Unreachable::Prohibited).is_some());
        }
    }
    if let Inbound::Tcp { packet, segment, .. } = inbound {
        assert_eq!(Framer::new(CARD).reset(packet).is_none(), segment.is_reset);
    }
});
