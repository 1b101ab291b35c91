//! The network of real machines, on an internet of namespaces. Needs root.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

mod place;
mod table;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use agentiso_core::NetworkRules;
use agentiso_core::ports::host::ForkSource;
use agentiso_core::ports::network::{Network, NetworkLogFilter};
use agentiso_testing::internet::places::{HOST, OTHER, WEB};

use crate::place::Place;

/// The configuration of the other back end.
const BRIDGE: &str = "[network]\nbackend = \"bridge\"\n";
/// A port of the public server that the test serves itself.
const OWN_PORT: u16 = 9000;

fn only_web() -> NetworkRules {
    NetworkRules {
        allow_internet: true,
        allow_domains: Some(vec!["web.example".to_owned()]),
        ..NetworkRules::default()
    }
}

fn social(group: &str) -> NetworkRules {
    NetworkRules { allow_inter_vm: true, groups: vec![group.to_owned()], ..NetworkRules::default() }
}

/// A command line that asks a web server for a page and prints the first line of its answer.
fn fetch(host: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/{host}/80 && printf 'GET / HTTP/1.0\\r\\nHost: {host}\\r\\n\\r\\n' >&3 && head -n 1 <&3"
    )
}

#[test]
fn a_workspace_reaches_what_its_rules_allow_and_its_fork_is_somebody_else() {
    lives("");
}

#[test]
fn a_workspace_on_the_bridge_lives_like_one_on_the_router_in_user_space() {
    lives(BRIDGE);
}

fn lives(config: &str) {
    Place::run_with(config, async |place| {
        let id = place.create("one", NetworkRules::default()).await;
        nothing_is_up_without_rules(place, id).await;
        rules_apply_at_once(place, id).await;

        // A connection that is open while the workspace is forked.
        place.set(id, NetworkRules { allow_cidrs: Some(vec![format!("{WEB}/32")]), ..only_web() }).await;
        let listener = place.internet.outside().enter(|| TcpListener::bind((WEB, OWN_PORT))).unwrap();
        let line = format!(
            "exec 3<>/dev/tcp/{WEB}/{OWN_PORT}; echo hello >&3; \
             while read -r line <&3; do echo \"got $line\" >> /root/heard; done; echo ended >> /root/heard"
        );
        place.job(id, &line).await;
        let mut stream = accept(&listener);
        place.until(id, "echo none > /root/heard; echo ready", "ready").await;
        let fork = place.fork(id, ForkSource::Now, "two").await;
        a_fork_has_addresses_of_its_own(place, id, fork).await;
        place.until(fork, "tail -n 1 /root/heard", "ended").await;
        stream.write_all(b"still here\n").unwrap();
        place.until(id, "tail -n 1 /root/heard", "got still here").await;
        assert_eq!(place.sh(fork, "cat /root/heard").await, "none\nended\n", "the fork hears nothing");

        a_daemon_that_ends_takes_no_connection_with_it(place, id, &mut stream).await;
        a_router_that_dies_is_replaced(place, id).await;
        neighbours_reach_each_other_if_both_allow_it(place, id, fork).await;
        place.remove(fork).await;
        turned_off_it_is_as_before(place, id).await;
        place.remove(id).await;
    });
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().unwrap();
    let mut line = String::new();
    BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "hello\n");
    stream
}

async fn nothing_is_up_without_rules(place: &Place, id: agentiso_core::WorkspaceId) {
    let flags = place.sh(id, "cat /sys/class/net/eth0/flags").await;
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(flags & 1, 0, "the card is down");
    assert_eq!(place.sh(id, "tail -n +2 /proc/net/route").await, "");
    assert_eq!(place.router(), None, "nothing runs that nobody needs");
    assert!(place.fails(id, &fetch(&WEB.to_string())).await);
}

async fn rules_apply_at_once(place: &Place, id: agentiso_core::WorkspaceId) {
    let state = place.set(id, only_web()).await;
    let address = state.address.unwrap();
    assert_eq!(place.sh(id, "hostname -i").await.trim(), address.to_string());
    assert_eq!(place.sh(id, "cat /etc/resolv.conf").await, "# agentiso\nnameserver 10.99.0.1\n");
    assert_eq!(place.sh(id, "cat /proc/sys/net/ipv6/conf/eth0/disable_ipv6 || echo 1").await, "1\n");
    assert_eq!(place.sh(id, &fetch("web.example")).await, "HTTP/1.0 200 OK\r\n");
    // Names and addresses that are not allowed are refused at once, and so is the host.
    for host in ["other.example".to_owned(), OTHER.to_string(), HOST.to_string(), "10.99.0.1".to_owned()] {
        assert!(place.fails(id, &fetch(&host)).await, "{host}");
    }
    place.workspaces().logged_after(4).await.unwrap();
    let filter = NetworkLogFilter { workspace: Some(id), after: None, limit: 100 };
    let log = place.workspaces().log(&filter).await.unwrap();
    let said: Vec<String> = log.iter().map(|entry| format!("{:?} {}", entry.event, entry.rule)).collect();
    assert!(said.contains(&"Opened allow_domains: web.example".to_owned()), "{said:?}");
    assert!(said.contains(&"Refused not in allow_domains or allow_cidrs".to_owned()), "{said:?}");
}

async fn a_fork_has_addresses_of_its_own(
    place: &Place,
    id: agentiso_core::WorkspaceId,
    fork: agentiso_core::WorkspaceId,
) {
    let (own, other) = (place.state(id).await, place.state(fork).await);
    assert_eq!(own.rules, other.rules);
    assert_ne!(own.address, other.address);
    let mac = "cat /sys/class/net/eth0/address";
    assert_ne!(place.sh(id, mac).await, place.sh(fork, mac).await);
    assert_eq!(place.sh(fork, "hostname -i").await.trim(), other.address.unwrap().to_string());
    assert_eq!(place.sh(fork, &fetch("web.example")).await, "HTTP/1.0 200 OK\r\n");
}

async fn a_daemon_that_ends_takes_no_connection_with_it(
    place: &mut Place,
    id: agentiso_core::WorkspaceId,
    stream: &mut TcpStream,
) {
    let router = place.router();
    place.close();
    stream.write_all(b"meanwhile\n").unwrap();
    place.open().await;
    place.until(id, "tail -n 1 /root/heard", "got meanwhile").await;
    assert_eq!((place.router(), router.is_some()), (router, true), "the same router");
    assert_eq!(place.sh(id, &fetch("web.example")).await, "HTTP/1.0 200 OK\r\n");
}

async fn a_router_that_dies_is_replaced(place: &Place, id: agentiso_core::WorkspaceId) {
    let before = place.kill_router();
    place
        .until(id, &format!("({}) 2>/dev/null | tr -d '\\r'", fetch("web.example")), "HTTP/1.0 200 OK")
        .await;
    assert_ne!(place.router(), Some(before));
    assert!(place.fails(id, &fetch(&OTHER.to_string())).await, "with the same rules");
    // The connection that was open is gone, and the workspace knows.
    place.until(id, "tail -n 1 /root/heard", "ended").await;
}

async fn neighbours_reach_each_other_if_both_allow_it(
    place: &Place,
    id: agentiso_core::WorkspaceId,
    fork: agentiso_core::WorkspaceId,
) {
    let server = "perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(LocalPort => 80, Listen => 9, \
        ReuseAddr => 1) or die; while ($c = $l->accept) { print $c \"neighbour\\n\"; close $c }'";
    place.job(id, server).await;
    let address: Ipv4Addr = place.state(id).await.address.unwrap();
    let ask = format!("exec 3<>/dev/tcp/{address}/80 && head -n 1 <&3");
    assert!(place.fails(fork, &ask).await, "not by default");
    place.set(id, social("blue")).await;
    assert!(place.fails(fork, &ask).await, "both have to allow it");
    place.set(fork, social("blue")).await;
    place.until(fork, &ask, "neighbour").await;
    assert!(place.fails(fork, &fetch(&WEB.to_string())).await, "a neighbour is not the internet");
    place.set(fork, social("green")).await;
    assert!(place.fails(fork, &ask).await, "they share no group");
}

async fn turned_off_it_is_as_before(place: &Place, id: agentiso_core::WorkspaceId) {
    let state = place.set(id, NetworkRules::default()).await;
    assert_eq!(state.address, None);
    assert_eq!(place.sh(id, "tail -n +2 /proc/net/route").await, "");
    assert_eq!(place.sh(id, "cat /etc/resolv.conf 2>/dev/null | grep -c agentiso || true").await.trim(), "0");
    assert!(place.fails(id, &fetch(&WEB.to_string())).await);
}
