//! What a hostile guest sends on a TAP device: the bridge drops it, and its neighbours see nothing of it.

use std::net::Ipv4Addr;

use agentiso_core::NetworkRules;
use agentiso_net::LogEvent;
use agentiso_net::plan::GATEWAY_MAC;
use agentiso_testing::internet::Internet;
use agentiso_testing::internet::places::{METADATA, OTHER, WEB};
use agentiso_testing::internet::table::{GATEWAY, How};

use crate::attempts::{Outcome, attempt, ping, resolve};
use crate::bridged::{inside, start_bridge, tap_guest, wait_until};
use crate::sockets::on_host;
use crate::support::*;

const EVERYBODY: [u8; 6] = [0xff; 6];

fn social_online() -> NetworkRules {
    NetworkRules { allow_internet: true, ..social() }
}

/// Frames that must not pass, from a guest with this address, about a neighbour with that one.
fn hostile_frames(guest: &Guest, neighbour: &Guest) -> Vec<(&'static str, Vec<u8>)> {
    let (mac, own, other) = (guest.mac, guest.address, neighbour.address);
    let datagram = frames::udp(4000, 7, b"hello");
    let packet = frames::ip(own, WEB, 17, &datagram);
    let to_gateway = |ethertype: u16, payload: &[u8]| frames::frame(GATEWAY_MAC, mac, ethertype, payload);
    let tagged = [&[0, 7, 8, 0][..], &packet].concat();
    let advertisement =
        [&[0x60, 0, 0, 0, 0, 8, 58, 255][..], &[0xfe; 16], &[0xff; 16], &[134, 0, 0, 0, 64, 0, 0, 9]]
            .concat();
    let solicitation =
        [&[0x60, 0, 0, 0, 0, 8, 58, 255][..], &[0xfe; 16], &[0xff; 16], &[136, 0, 0, 0, 0, 0, 0, 0]].concat();
    let discover =
        frames::ip(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, 17, &frames::udp(68, 67, &[1; 240]));
    let offer = frames::ip(GATEWAY, Ipv4Addr::BROADCAST, 17, &frames::udp(67, 68, &[2; 240]));
    vec![
        ("another MAC address", frames::frame(GATEWAY_MAC, neighbour.mac, 0x0800, &packet)),
        ("the gateway's MAC address", frames::frame(EVERYBODY, GATEWAY_MAC, 0x0800, &packet)),
        ("a neighbour's address", frames::ip_frame(mac, other, WEB, 17, &datagram)),
        ("the gateway's address", frames::ip_frame(mac, GATEWAY, other, 17, &datagram)),
        ("a stranger's address", frames::ip_frame(mac, OTHER, WEB, 17, &datagram)),
        (
            "a frame to a neighbour's card",
            frames::frame(neighbour.mac, mac, 0x0800, &frames::ip(own, other, 17, &datagram)),
        ),
        ("a broadcast", frames::frame(EVERYBODY, mac, 0x0800, &packet)),
        ("a multicast of the bridge protocol", frames::frame([1, 0x80, 0xc2, 0, 0, 0], mac, 0x0800, &packet)),
        ("an answer that nobody asked for", to_gateway(0x0806, &frames::arp(2, mac, other, other))),
        (
            "the gateway's address, in ARP",
            frames::frame(EVERYBODY, mac, 0x0806, &frames::arp(1, mac, GATEWAY, other)),
        ),
        (
            "a neighbour's address, in ARP",
            frames::frame(EVERYBODY, mac, 0x0806, &frames::arp(1, mac, other, GATEWAY)),
        ),
        (
            "another MAC address, in ARP",
            frames::frame(EVERYBODY, mac, 0x0806, &frames::arp(1, neighbour.mac, own, GATEWAY)),
        ),
        (
            "a question for a neighbour, in ARP",
            frames::frame(EVERYBODY, mac, 0x0806, &frames::arp(1, mac, own, other)),
        ),
        ("a DHCP request", frames::frame(EVERYBODY, mac, 0x0800, &discover)),
        ("a DHCP answer", frames::frame(EVERYBODY, mac, 0x0800, &offer)),
        ("a router advertisement", frames::frame([0x33, 0x33, 0, 0, 0, 1], mac, 0x86dd, &advertisement)),
        ("a neighbour advertisement", frames::frame([0x33, 0x33, 0, 0, 0, 1], mac, 0x86dd, &solicitation)),
        ("a VLAN tag", to_gateway(0x8100, &tagged)),
        ("two VLAN tags", to_gateway(0x88a8, &[&[0, 7, 0x81, 0][..], &tagged].concat())),
        ("another protocol", to_gateway(0x88cc, &[0; 60])),
    ]
}

/// The frames that the bridge dropped.
fn dropped(bridge: &agentiso_net::bridge::Bridge) -> u64 {
    let rules = inside(bridge, "nft list chain bridge agentiso card");
    let counter = rules.split("counter packets ").nth(1).and_then(|rest| rest.split(' ').next());
    counter.and_then(|count| count.parse().ok()).expect("the counter of the filter")
}

#[test]
fn forged_frames_are_dropped_on_the_bridge_and_reach_nobody() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, social_online());
        let mut neighbour = tap_guest(&bridge, 3, social_online());
        for (what, frame) in hostile_frames(&guest, &neighbour) {
            let before = dropped(&bridge);
            guest.send_frame(&frame).await;
            wait_until(what, || dropped(&bridge) == before + 1).await;
            assert_eq!(attempt(&mut guest, GATEWAY, How::Ping).await, Outcome::Reached, "{what}");
        }
        // What is no packet at all may be dropped anywhere.
        let packet = frames::ip(guest.address, WEB, 17, &frames::udp(1, 2, b"3"));
        for length in [0, 1, 18, 20, 27] {
            guest.send_frame(&frames::frame(GATEWAY_MAC, guest.mac, 0x0800, &packet[..length])).await;
        }
        guest.send_frame(&frames::frame(GATEWAY_MAC, guest.mac, 0x0800, &[0x45; 9000])).await;
        assert_eq!(attempt(&mut guest, GATEWAY, How::Ping).await, Outcome::Reached);
        assert_eq!(neighbour.arrived(), [] as [Vec<u8>; 0], "no frame reached the neighbour");
        assert_eq!(
            attempt(&mut neighbour, WEB, How::Udp(7)).await,
            Outcome::Reached,
            "the neighbour is not disturbed"
        );
        let neighbours = inside(&bridge, "ip neigh show dev workspaces");
        assert_eq!(neighbours.matches("PERMANENT").count(), 2, "nothing was learnt: {neighbours}");
    });
    assert!(!internet.arrivals().was_sent(METADATA));
    let strangers = internet.arrivals().packets().into_iter().filter(|seen| seen.from == OTHER).count();
    assert_eq!(strangers, 0, "no packet left with a forged address");
}

#[test]
fn redirects_fragments_and_source_routes_open_nothing() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, online());
        // A redirect of the gateway's route for the neighbour, "from" the gateway's own uplink.
        let inner = frames::ip(Ipv4Addr::new(192, 0, 2, 2), WEB, 17, &frames::udp(1, 2, b"12345678"));
        let redirect = [&[5, 1, 0, 0][..], &guest.address.octets(), &inner[..28]].concat();
        guest.send_frame(&frames::ip_frame(guest.mac, guest.address, GATEWAY, 1, &redirect)).await;
        // A fragment of a packet to a closed address, without its first part.
        let mut fragment = frames::ip(guest.address, METADATA, 17, &[1; 64]);
        fragment[6..8].copy_from_slice(&8_u16.to_be_bytes());
        frames::fix_checksum(&mut fragment);
        guest.send_frame(&frames::frame(GATEWAY_MAC, guest.mac, 0x0800, &fragment)).await;
        assert_eq!(attempt(&mut guest, GATEWAY, How::Ping).await, Outcome::Reached);
        let routes = inside(&bridge, "ip route get 93.184.216.34 mark 1");
        assert!(routes.contains("via 192.0.2.1 dev uplink"), "{routes}");
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);
    });
    assert!(!internet.arrivals().was_sent(METADATA), "no fragment left");
}

#[test]
fn names_of_a_refused_domain_carry_nothing_out() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(
            &bridge,
            2,
            NetworkRules { allow_domains: Some(strings(&["web.example"])), ..online() },
        );
        for number in 0..50 {
            assert_eq!(resolve(&mut guest, &format!("secret-{number}.tunnel.example")).await, None);
        }
        assert_eq!(resolve(&mut guest, "web.example").await, Some(WEB));
    });
    let asked: Vec<_> = internet.arrivals().requests().into_iter().map(|request| request.host).collect();
    assert_eq!(asked, ["web.example"]);
}

#[test]
fn a_guest_that_floods_leaves_its_neighbour_the_answers() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut flooder = tap_guest(&bridge, 2, online());
        let mut neighbour = tap_guest(&bridge, 3, online());
        let (mac, own) = (flooder.mac, flooder.address);
        for round in 0..20_u16 {
            for number in 0..200_u16 {
                let source = 1024 + round * 200 + number;
                let query = frames::ip_frame(mac, own, GATEWAY, 17, &frames::udp(source, 53, b"not a query"));
                let connection = frames::ip_frame(mac, own, WEB, 6, &frames::syn(source, 9));
                let packet = frames::ip_frame(mac, own, WEB, 17, &frames::udp(source, 9, &[0; 64]));
                for frame in [query, connection, packet] {
                    flooder.send_frame(&frame).await;
                }
            }
            assert_eq!(resolve(&mut neighbour, "web.example").await, Some(WEB), "round {round}");
            assert_eq!(attempt(&mut neighbour, WEB, How::Tcp(80)).await, Outcome::Reached, "round {round}");
        }
        let entries = bridge.log(0, usize::MAX);
        let of_neighbour = entries.iter().filter(|entry| entry.workspace == workspace(3));
        let opened = of_neighbour.filter(|entry| entry.event == LogEvent::Opened).count();
        assert_eq!(opened, 20, "the flood did not push the neighbour out of the log");
        wait_until("the flood is bounded", || {
            inside(&bridge, "cat /proc/sys/net/netfilter/nf_conntrack_count").trim().parse::<u32>().unwrap()
                <= 2 * 4096 + 100
        })
        .await;
        flooder.send_frame(&ping(mac, own, GATEWAY)).await;
    });
}
