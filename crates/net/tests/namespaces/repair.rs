//! What others do to the bridge: noticed, repaired, and closed meanwhile.

use agentiso_core::NetworkRules;
use agentiso_net::LogEvent;
use agentiso_policy::egress::Policy;
use agentiso_testing::internet::Internet;
use agentiso_testing::internet::places::{HOST, METADATA, WEB};
use agentiso_testing::internet::table::How;

use crate::attempts::{Outcome, attempt, ping};
use crate::bridged::{inside, spec, start_bridge, tap_guest, wait_until};
use crate::sockets::on_host;
use crate::support::*;

#[test]
fn a_flushed_filter_opens_nothing_and_is_set_up_again() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, online());
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);
        let mut neighbour = tap_guest(&bridge, 3, NetworkRules::default());
        inside(&bridge, "nft flush ruleset");
        for _ in 0..3 {
            for to in [METADATA, HOST, neighbour.address] {
                guest.send_frame(&ping(guest.mac, guest.address, to)).await;
            }
        }
        wait_until("the filter is back", || {
            inside(&bridge, "nft list ruleset").contains("chain out_w0a630002")
        })
        .await;
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);
        assert_eq!(attempt(&mut guest, METADATA, How::Tcp(80)).await, Outcome::Refused);
        assert_eq!(neighbour.arrived(), [] as [Vec<u8>; 0]);
    });
    assert!(!internet.arrivals().was_sent(METADATA), "nothing passed while the filter was missing");
    assert!(internet.host_arrivals().packets().iter().all(|seen| seen.to != HOST || seen.protocol != 1));
}

#[test]
fn an_emptied_chain_is_noticed() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, online());
        inside(&bridge, "nft flush chain ip agentiso forward");
        wait_until("the chain is back", || {
            inside(&bridge, "nft list chain ip agentiso forward").contains("established")
        })
        .await;
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);
    });
}

#[test]
fn a_deleted_bridge_and_a_killed_uplink_come_back() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, online());
        inside(&bridge, "ip link delete workspaces");
        wait_until("the bridge is back", || {
            inside(&bridge, "ip -brief link show master workspaces 2>/dev/null || true").contains("w0a630002")
                && inside(&bridge, "ip neigh").contains("10.99.0.2")
        })
        .await;
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);

        let before = bridge.uplink_process().unwrap();
        let pid = rustix::process::Pid::from_raw(before.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        wait_until("another uplink has a route", || {
            bridge.uplink_process().is_some_and(|pid| pid != before)
                && inside(&bridge, "ip route show table 100").contains("default via")
        })
        .await;
        assert_eq!(attempt(&mut guest, WEB, How::Tcp(80)).await, Outcome::Reached);
    });
}

#[test]
fn a_stricter_policy_cuts_what_is_open_and_nothing_else() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let bridge = start_bridge(resolv_conf).await;
        let mut guest = tap_guest(&bridge, 2, online());
        let mut other = tap_guest(&bridge, 3, online());
        let connection = guest.connect(WEB, 80).await.unwrap();
        let untouched = other.connect(WEB, 80).await.unwrap();
        bridge.set_policies(vec![(workspace(2), Policy::check(&NetworkRules::default()).unwrap())]).unwrap();
        guest.send(connection, b"GET / HTTP/1.0\r\n\r\n").await;
        assert_eq!(guest.receive_all(connection).await, None, "the connection was reset");
        other.send(untouched, b"GET / HTTP/1.0\r\n\r\n").await;
        assert!(other.receive_all(untouched).await.is_some());
        let cut = bridge.log(0, 100).into_iter().find(|entry| entry.event == LogEvent::Cut).unwrap();
        assert_eq!((cut.workspace, cut.address, cut.port), (workspace(2), Some(WEB), 80));
        assert_eq!(cut.rule, "allow_internet: false");
    });
}

#[test]
fn a_hundred_workspaces_are_attached_changed_and_gone_without_a_trace() {
    let internet = Internet::new();
    let resolv_conf = internet.resolv_conf();
    on_host(&internet, || async {
        let links = internet.host().run("ip", &["-brief", "link"]);
        let bridge = start_bridge(resolv_conf).await;
        let taps: Vec<_> = (2..102).map(|last| bridge.attach(spec(last, social())).unwrap()).collect();
        assert_eq!(bridge.machines().len(), 100);
        let rules = |bridge: &_| inside(bridge, "nft list ruleset");
        let before = rules(&bridge);
        let start = std::time::Instant::now();
        for round in 0..10 {
            let policy = if round % 2 == 0 { online() } else { social() };
            bridge.set_policies(vec![(workspace(50), Policy::check(&policy).unwrap())]).unwrap();
        }
        println!("a policy change among 100 workspaces takes {:?}", start.elapsed() / 10);
        assert_eq!(rules(&bridge), before, "the last change restored the first state");
        let proxied = NetworkRules { egress: agentiso_core::Egress::Proxy, ..online() };
        let refused =
            bridge.set_policies(vec![(workspace(50), Policy::check(&proxied).unwrap())]).unwrap_err();
        assert!(refused.to_string().contains("no egress proxy"), "{refused}");
        assert_eq!(rules(&bridge), before, "nothing was changed");
        bridge.detach(workspace(50)).unwrap();
        assert!(!inside(&bridge, "nft list ruleset").contains("w0a630032"));
        let (namespace, uplink) = (bridge.namespace(), bridge.uplink_process().unwrap());
        drop(taps);
        drop(bridge);
        assert!(!namespace.exists(), "the namespace is closed");
        wait_until("the uplink has ended", || !std::path::Path::new(&format!("/proc/{uplink}")).exists())
            .await;
        assert_eq!(internet.host().run("ip", &["-brief", "link"]), links, "the host's links are untouched");
        assert_eq!(internet.host().run("nft", &["list", "ruleset"]), "", "and so is its firewall");
    });
}
