//! Frames that an honest guest would not send.

use std::net::Ipv4Addr;

use agentiso_core::NetworkRules;
use agentiso_net::frame::Dropped;
use agentiso_net::plan::GATEWAY_MAC;
use agentiso_net::{Limits, MachineSpec};
use tokio::io::AsyncWriteExt;

use crate::support::frames::*;
use crate::support::*;

/// Asks for the gateway and waits for the answer: everything sent before has been handled then.
async fn round_trip(guest: &mut Guest) -> Vec<u8> {
    let question = frame([0xff; 6], guest.mac, 0x0806, &arp(1, guest.mac, guest.address, GATEWAY));
    guest.send_frame(&question).await;
    guest.receive_frame().await
}

#[tokio::test]
async fn the_gateway_answers_arp_for_itself_alone() {
    let net = Net::new();
    let mut guest = net.guest(2, NetworkRules::default());
    let answer = round_trip(&mut guest).await;
    assert_eq!(answer[..12], [&guest.mac[..], &GATEWAY_MAC].concat());
    assert_eq!(answer[22..32], [&GATEWAY_MAC[..], &GATEWAY.octets()].concat());
}

#[tokio::test]
async fn hostile_frames_are_dropped_counted_and_reach_nobody() {
    let net = Net::new();
    let server = net.uplink.receive(PUBLIC, 123).await;
    let mut guest = net.guest(2, NetworkRules { allow_inter_vm: true, ..online() });
    let mut victim = net.guest(3, NetworkRules { allow_inter_vm: true, ..online() });
    let datagram = || udp(5000, 123, b"spoofed");
    let (mac, own) = (guest.mac, guest.address);
    let frames: Vec<(Vec<u8>, Dropped)> = vec![
        (frame(GATEWAY_MAC, victim.mac, 0x0800, &ip(own, PUBLIC, 17, &datagram())), Dropped::SourceMac),
        (
            frame(GATEWAY_MAC, mac, 0x0800, &ip(victim.address, PUBLIC, 17, &datagram())),
            Dropped::SourceAddress,
        ),
        (frame(victim.mac, mac, 0x0800, &ip(own, victim.address, 17, &datagram())), Dropped::DestinationMac),
        (frame([0xff; 6], mac, 0x0806, &arp(2, mac, GATEWAY, victim.address)), Dropped::Arp),
        (frame([0xff; 6], mac, 0x0806, &arp(1, mac, own, victim.address)), Dropped::Arp),
        (frame([0x33, 0x33, 0, 0, 0, 1], mac, 0x86dd, &[0x60; 60]), Dropped::Ipv6),
        (frame(GATEWAY_MAC, mac, 0x8100, &ip(own, PUBLIC, 17, &datagram())), Dropped::Vlan),
        (frame([0xff; 6], mac, 0x0800, &ip(own, Ipv4Addr::BROADCAST, 17, &udp(67, 68, b"x"))), Dropped::Dhcp),
        (ip_frame(mac, own, victim.address, 1, &[5, 1, 0, 0, 1, 1, 1, 1]), Dropped::Icmp),
        (ip_frame(mac, own, PUBLIC, 47, &datagram()), Dropped::Protocol),
        (ip_frame(mac, own, PUBLIC, 17, &[0; 3000]), Dropped::Oversized),
        (vec![1, 2, 3], Dropped::Malformed),
    ];
    for (bytes, _) in &frames {
        guest.send_frame(bytes).await;
    }
    // A dropped frame is not answered: the first frame back is the answer to this question.
    assert_eq!(round_trip(&mut guest).await[12..14], [8, 6]);
    let status = net.router.machines();
    for (bytes, reason) in &frames {
        assert!(status[0].counters.dropped.contains_key(reason), "{reason:?} {bytes:?}");
    }
    assert_eq!(status[0].counters.dropped.values().sum::<u64>(), frames.len() as u64);
    assert_eq!(status[0].counters.flows_opened, 0);
    assert_eq!(
        round_trip(&mut victim).await[12..14],
        [8, 6],
        "the neighbour received nothing before this answer"
    );
    let mut buffer = [0; 100];
    assert!(server.try_recv(&mut buffer).is_err(), "nothing left the router");
}

#[tokio::test]
async fn a_flood_of_one_guest_is_cut_and_another_guest_goes_on() {
    let net = Net::new();
    let listener = net.uplink.listen(PUBLIC, 80).await;
    let limits = Limits { packets_per_second: 100, ..Limits::default() };
    let mut flooder = net.guest_with(2, online(), limits, 1500);
    let mut other = net.guest(3, online());
    let junk = ip_frame(flooder.mac, flooder.address, PUBLIC, 17, &udp(5000, 9, b"junk"));
    for _ in 0..500 {
        flooder.send_frame(&junk).await;
    }
    let connection = other.connect(PUBLIC, 80).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"fine").await.unwrap();
    assert_eq!(other.receive(connection, 4).await, b"fine");
    let dropped = &net.router.machines()[0].counters.dropped;
    assert!(dropped[&Dropped::PacketRate] > 300, "{dropped:?}");
}

#[tokio::test]
async fn a_machine_that_cannot_be_attached_is_refused_and_leaves_nothing() {
    let net = Net::new();
    let _guest = net.guest(2, NetworkRules::default());
    let good = net.spec(3, NetworkRules::default());
    let refused = |spec: MachineSpec| {
        let error = net.router.attach(spec.clone(), Guest::new(&spec).1).unwrap_err();
        (error.to_string(), agentiso_core::Explain::remedy(&error).unwrap())
    };
    let outside = MachineSpec { address: Ipv4Addr::new(10, 98, 0, 3), ..good.clone() };
    assert_eq!(refused(outside).0, "10.98.0.3 is not an address of the pool");
    let gateway = MachineSpec { address: GATEWAY, ..good.clone() };
    assert_eq!(refused(gateway).0, "10.99.0.1 is not an address of the pool");
    let taken = MachineSpec { address: Ipv4Addr::new(10, 99, 0, 2), ..good.clone() };
    assert_eq!(refused(taken).0, "the address 10.99.0.2 belongs to another workspace");
    let small = MachineSpec { mtu: 100, ..good.clone() };
    assert_eq!(refused(small).0, "an MTU of 100 is not between 1280 and 65520");
    let file = std::fs::File::open("/dev/null").unwrap();
    let error = net.router.attach(good.clone(), file.into()).unwrap_err();
    assert_eq!(error.to_string(), "the socket of the card cannot be used");
    assert_eq!(net.router.machines().len(), 1);

    let (guest, card) = Guest::new(&good);
    net.router.attach(good.clone(), card).unwrap();
    net.router.detach(workspace(3)).unwrap();
    assert!(guest.is_unplugged(), "nothing receives its frames");
    let error = net.router.detach(workspace(3)).unwrap_err();
    assert!(error.to_string().contains("is not attached"));
    assert_eq!(agentiso_core::Explain::code(&error), agentiso_core::Code::WorkspaceNotRunning);
}

#[tokio::test]
async fn policies_change_together_or_not_at_all() {
    let net = Net::new();
    let _listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, NetworkRules::default());
    let open = agentiso_policy::egress::Policy::check(&online()).unwrap();
    let changes = vec![(workspace(2), open.clone()), (workspace(9), open.clone())];
    assert!(net.router.set_policies(changes).is_err(), "workspace 9 is not attached");
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
    net.router.set_policies(vec![(workspace(2), open.clone())]).unwrap();
    guest.connect(PUBLIC, 80).await.unwrap();
    assert_eq!(net.router.machines()[0].spec.policy, open);

    // Attaching again replaces card and policy.
    net.router.attach(net.spec(2, NetworkRules::default()), guest.replug()).unwrap();
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
}
