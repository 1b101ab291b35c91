//! Who may reach what: the table, checked by connecting.

use std::net::Ipv4Addr;

use agentiso_core::NetworkRules;
use agentiso_net::LogEvent;
use agentiso_policy::egress::Policy;

use crate::support::*;

fn listed(domains: &[&str], cidrs: &[&str]) -> NetworkRules {
    NetworkRules { allow_domains: Some(strings(domains)), allow_cidrs: Some(strings(cidrs)), ..online() }
}

#[tokio::test]
async fn every_row_of_the_table_holds_on_the_wire() {
    let host = Ipv4Addr::new(198, 41, 0, 7);
    let private = Ipv4Addr::new(10, 1, 2, 3);
    let metadata = Ipv4Addr::new(169, 254, 169, 254);
    let resolver = Ipv4Addr::new(8, 8, 8, 8);
    let denying = NetworkRules { deny_cidrs: strings(&["93.184.216.0/24"]), ..online() };
    let table: Vec<(&str, NetworkRules, Ipv4Addr, u16, &str)> = vec![
        ("nothing by default", NetworkRules::default(), PUBLIC, 80, "refused: allow_internet: false"),
        ("the internet", online(), PUBLIC, 80, "allowed: allow_internet: true"),
        ("a denied range", denying, PUBLIC, 80, "refused: deny_cidrs: 93.184.216.0/24"),
        (
            "a listed range",
            listed(&[], &["93.184.0.0/16"]),
            PUBLIC,
            80,
            "allowed: allow_cidrs: 93.184.0.0/16",
        ),
        (
            "an unlisted address",
            listed(&["a.example"], &[]),
            PUBLIC,
            80,
            "refused: not in allow_domains or allow_cidrs",
        ),
        ("private", online(), private, 80, "refused: closed by default: a private address"),
        ("private, named", listed(&[], &["10.1.0.0/16"]), private, 80, "allowed: allow_cidrs: 10.1.0.0/16"),
        (
            "private, not named",
            listed(&[], &["0.0.0.0/0"]),
            private,
            80,
            "refused: closed by default: a private address",
        ),
        ("metadata", online(), metadata, 80, "refused: closed by default: a cloud metadata address"),
        ("loopback", online(), Ipv4Addr::LOCALHOST, 80, "refused: closed by default: a loopback address"),
        ("the host", online(), host, 80, "refused: closed by default: an address of the host"),
        ("the host, named", listed(&[], &["198.41.0.7"]), host, 80, "allowed: allow_cidrs: 198.41.0.7/32"),
        ("another resolver", online(), resolver, 53, "refused: closed by default: another resolver"),
        ("DNS over TLS", online(), PUBLIC, 853, "refused: closed by default: another resolver"),
        ("DNS over HTTPS", online(), resolver, 443, "refused: closed by default: another resolver"),
        ("a named resolver", listed(&[], &["8.8.8.8"]), resolver, 443, "allowed: allow_cidrs: 8.8.8.8/32"),
        ("the gateway's other ports", online(), GATEWAY, 22, "refused: gateway: no service on this port"),
        (
            "nobody's address",
            social(),
            Ipv4Addr::new(10, 99, 7, 7),
            80,
            "refused: no workspace has this address",
        ),
    ];
    for (name, policy, to, port, expected) in table {
        let net = Net::new();
        net.uplink.own(host);
        // Every destination has a server, so only policy can refuse.
        let _listener = net.uplink.listen(to, port).await;
        let mut guest = net.guest(2, policy);
        let connected = guest.connect(to, port).await;
        let entry = net
            .logged(if connected == Connected::Refused { LogEvent::Refused } else { LogEvent::Opened })
            .await;
        let verdict = if connected == Connected::Refused { "refused" } else { "allowed" };
        assert_eq!(format!("{verdict}: {}", entry.rule), expected, "{name}");
        assert_eq!((entry.address, entry.port), (Some(to), port), "{name}");
    }
}

#[tokio::test]
async fn a_flood_of_refused_connections_does_not_flood_the_log() {
    let net = Net::new();
    let mut guest = net.guest(2, NetworkRules::default());
    let attempts: Vec<_> = (0..1500).map(|_| guest.dial(PUBLIC, 80, 64)).collect();
    let mut open = attempts;
    guest
        .until("all are refused", |guest| {
            open.retain(|&handle| guest.tcp(handle).is_open());
            open.is_empty().then_some(())
        })
        .await;
    let counters = &net.router.machines()[0].counters;
    let logged = net.router.log(0, usize::MAX).len() as u64;
    assert_eq!(counters.refused, 1500);
    assert_eq!(logged + counters.log_suppressed, 1500);
    assert!(counters.log_suppressed > 0);
}

#[tokio::test]
async fn a_policy_that_tightens_while_a_connection_is_decided_about_wins() {
    let net: &'static Net = Box::leak(Box::new(Net::new()));
    let _listener = net.uplink.listen(PUBLIC, 80).await;
    let mut guest = net.guest(2, online());
    let tighten = || {
        net.uplink.meanwhile(|| {
            net.router.set_policies(vec![(workspace(2), Policy::default())]).unwrap();
        });
    };
    tighten();
    assert_eq!(guest.connect(PUBLIC, 80).await, Connected::Refused);
    net.router.set_policies(vec![(workspace(2), Policy::check(&online()).unwrap())]).unwrap();
    guest.connect(PUBLIC, 80).await.unwrap();
    net.router.set_policies(vec![(workspace(2), Policy::check(&online()).unwrap())]).unwrap();

    let server = net.uplink.receive(OTHER_PUBLIC, 7).await;
    tighten();
    let socket = guest.udp();
    guest.send_udp(socket, OTHER_PUBLIC, 7, b"hello");
    guest.until("the datagram is sent", |_| Some(())).await;
    while net.router.log(0, 100).iter().filter(|entry| entry.event == LogEvent::Cut).count() < 3 {
        tokio::task::yield_now().await;
    }
    assert!(server.try_recv(&mut [0; 10]).is_err(), "nothing was sent");
    assert_eq!(net.router.machines()[0].counters.flows_open, 0);
}
