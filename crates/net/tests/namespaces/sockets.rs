//! The router with the host's real sockets.

use std::sync::Arc;

use agentiso_net::{HostUplink, LogEvent, Router};
use agentiso_testing::internet::Internet;
use agentiso_testing::internet::places::{NOBODY, WEB};
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, Ipv4Packet};

use crate::attempts::ping;
use crate::support::*;

fn real_net() -> Net {
    Net::with_router(Router::new(settings(Vec::new()), Arc::new(HostUplink)))
}

/// Runs a test in a runtime in the host's namespace.
pub fn on_host<F: Future<Output = ()>>(internet: &Internet, body: impl FnOnce() -> F + Send) {
    internet.host().enter(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(body());
    });
}

#[test]
fn a_destination_without_a_route_fails_at_once_although_it_is_allowed() {
    let internet = Internet::new();
    internet.host().ip("route del default");
    on_host(&internet, || async {
        let net = real_net();
        let mut guest = net.guest(2, online());
        guest.dial(NOBODY, 80, 1000);
        guest
            .until("the attempt is made", |_| {
                net.router.machines()[0].counters.flows_opened.eq(&1).then_some(())
            })
            .await;
        assert_eq!(net.logged(LogEvent::Failed).await.address, Some(NOBODY));
    });
}

#[test]
fn a_guest_is_told_when_the_host_lets_nobody_ping() {
    let internet = Internet::new();
    internet.host().set("net.ipv4.ping_group_range", "1 0");
    on_host(&internet, || async {
        let net = real_net();
        let mut guest = net.guest(2, online());
        guest.send_frame(&ping(guest.mac, guest.address, WEB)).await;
        let frame = guest.receive_frame().await;
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        let message = Icmpv4Packet::new_checked(packet.payload()).unwrap();
        assert_eq!((message.msg_type(), message.msg_code()), (Icmpv4Message::DstUnreachable, 13));
    });
}
