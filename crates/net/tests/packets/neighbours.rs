//! Flows between workspaces.

use agentiso_core::NetworkRules;
use agentiso_net::LogEvent;
use agentiso_policy::egress::Policy;
use smoltcp::socket::tcp::State;

use crate::support::*;

fn group(name: &str) -> NetworkRules {
    NetworkRules { groups: strings(&[name]), ..social() }
}

/// Connects from one guest to another, and passes a few bytes both ways.
async fn talk(from: &mut Guest, to: &mut Guest, port: u16) -> bool {
    let server = to.listen(port);
    let connection = from.dial(to.address, port, 65_536);
    let outcome = tokio::select! {
        outcome = from.settled(connection) => outcome,
        () = to.serve() => unreachable!(),
    };
    if outcome == Connected::Refused {
        to.sockets.remove(server);
        return false;
    }
    from.send(connection, b"question").await;
    tokio::select! {
        data = to.receive(server, 8) => assert_eq!(data, b"question"),
        () = from.serve() => unreachable!(),
    }
    to.send(server, b"answer").await;
    tokio::select! {
        data = from.receive(connection, 6) => assert_eq!(data, b"answer"),
        () = to.serve() => unreachable!(),
    }
    true
}

#[tokio::test]
async fn workspaces_reach_each_other_exactly_where_both_policies_allow_it() {
    let net = Net::new();
    let mut blue = net.guest(2, group("blue"));
    let mut blue2 = net.guest(3, NetworkRules { allowed_ports: Some(vec![80]), ..group("blue") });
    let mut red = net.guest(4, group("red"));
    let mut alone = net.guest(5, NetworkRules::default());
    assert!(talk(&mut blue, &mut blue2, 80).await);
    assert!(!talk(&mut blue, &mut blue2, 81).await, "not an allowed port");
    assert!(talk(&mut blue2, &mut blue, 81).await, "the other direction has no list of ports");
    assert!(!talk(&mut blue, &mut red, 80).await, "another group");
    assert!(!talk(&mut red, &mut blue, 80).await, "another group");
    assert!(!talk(&mut blue, &mut alone, 80).await);
    assert!(!talk(&mut alone, &mut blue, 80).await);
    let rules: Vec<String> =
        net.router.log(0, 100).into_iter().filter(|e| e.event == LogEvent::Refused).map(|e| e.rule).collect();
    assert_eq!(
        rules,
        [
            "allowed_ports: not listed",
            "allow_inter_vm: no shared group",
            "allow_inter_vm: no shared group",
            "allow_inter_vm: false",
            "allow_inter_vm: false",
        ]
    );
}

#[tokio::test]
async fn a_tightened_policy_cuts_connections_between_workspaces() {
    let net = Net::new();
    let mut one = net.guest(2, social());
    let mut two = net.guest(3, social());
    let server = two.listen(80);
    let connection = one.dial(two.address, 80, 1000);
    tokio::select! {
        outcome = one.settled(connection) => drop(outcome.unwrap()),
        () = two.serve() => unreachable!(),
    }
    net.router.set_policies(vec![(workspace(3), Policy::default())]).unwrap();
    assert_eq!(net.logged(LogEvent::Cut).await.workspace, workspace(2));
    one.send(connection, b"still there?").await;
    one.until("the connection is reset", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
    assert_eq!(two.tcp(server).recv_queue(), 0);
}

#[tokio::test]
async fn connections_with_a_detached_workspace_end() {
    let net = Net::new();
    let mut one = net.guest(2, social());
    let mut two = net.guest(3, social());
    assert!(talk(&mut one, &mut two, 80).await);
    net.router.detach(workspace(3)).unwrap();
    assert_eq!(net.logged(LogEvent::Cut).await.workspace, workspace(2));
    assert_eq!(one.connect(two.address, 80).await, Connected::Refused);
    assert_eq!(net.router.machines()[0].counters.flows_open, 0);
}

#[tokio::test]
async fn datagrams_and_pings_pass_between_workspaces() {
    let net = Net::new();
    let mut one = net.guest(2, social());
    let mut two = net.guest(3, social());
    let (asking, answering) = (one.udp(), two.udp());
    // Both sockets have the same port, the first that a guest gives out.
    one.send_udp(asking, two.address, 40_001, b"question");
    one.until("the datagram is sent", |_| Some(())).await;
    let (payload, from) = two.receive_udp(answering).await;
    assert_eq!(payload, b"question");
    assert_eq!(from, (one.address, 40_001).into());
    two.send_udp(answering, one.address, 40_001, b"answer");
    two.until("the datagram is sent", |_| Some(())).await;
    assert_eq!(one.receive_udp(asking).await.0, b"answer");
    let flows = net.router.log(0, 100).iter().filter(|entry| entry.event == LogEvent::Opened).count();
    assert_eq!(flows, 1, "the answer belongs to the flow of the question");
}

#[tokio::test]
async fn a_large_transfer_between_workspaces_arrives_whole() {
    let net = Net::new();
    let mut one = net.guest(2, social());
    let mut two = net.guest(3, social());
    let server = two.listen(80);
    let connection = one.dial(two.address, 80, 65_536);
    tokio::select! {
        outcome = one.settled(connection) => drop(outcome.unwrap()),
        () = two.serve() => unreachable!(),
    }
    two.until("the server has the connection too", |guest| {
        (guest.tcp(server).state() == State::Established).then_some(())
    })
    .await;
    let data: Vec<u8> = (0..2_000_000u32).map(|index| (index.wrapping_mul(40_503) >> 8) as u8).collect();
    let received = tokio::join!(
        async {
            one.send(connection, &data).await;
            one.tcp(connection).close();
            one.until("the end is acknowledged", |guest| {
                (guest.tcp(connection).state() != State::FinWait1).then_some(())
            })
            .await;
        },
        two.receive_all(server),
    )
    .1;
    assert!(received.unwrap() == data);
}

/// A connection from the first guest to a port of the second that is open at both ends.
async fn connected(one: &mut Guest, two: &mut Guest) -> smoltcp::iface::SocketHandle {
    let server = two.listen(80);
    let connection = one.dial(two.address, 80, 1000);
    tokio::select! {
        outcome = one.settled(connection) => drop(outcome.unwrap()),
        () = two.serve() => unreachable!(),
    }
    two.until("the server has the connection too", |guest| {
        (guest.tcp(server).state() == State::Established).then_some(())
    })
    .await;
    connection
}

#[tokio::test]
async fn a_workspace_that_is_attached_anew_has_no_connections_of_before() {
    let net = Net::new();
    let mut one = net.guest(2, social());
    let mut two = net.guest(3, social());
    let connection = connected(&mut one, &mut two).await;
    // A restored machine, with other rules, and a machine that got the address of another.
    for (last, spec) in [(3, net.spec(3, NetworkRules::default())), (4, net.spec(4, social()))] {
        let moved = agentiso_net::MachineSpec { workspace: workspace(last), ..spec };
        let card = two.replug();
        net.router.attach(moved, card).unwrap();
    }
    assert_eq!(net.logged(LogEvent::Cut).await.workspace, workspace(2));
    one.send(connection, b"still there?").await;
    one.until("the connection is reset", |guest| (!guest.tcp(connection).is_open()).then_some(())).await;
}
