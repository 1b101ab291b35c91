//! The table of who may reach what, and raw frames of a hostile guest, with real machines and both back ends.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use agentiso_core::WorkspaceId;
use agentiso_testing::internet::places::{CARRIER, LINK_LOCAL, METADATA, WEB};
use agentiso_testing::internet::table::{GATEWAY, How, Row, TABLE, To, workspaces};

use crate::place::Place;

const ATTEMPTS: &str = include_str!("attempts.pl");
const SERVICES: &str = include_str!("services.pl");
/// Two groups, the internet, and a list. More machines would show nothing that the table without machines does not.
const MACHINES: [&str; 5] = ["open", "listed", "blue-1", "blue-2", "green-1"];
/// The gateway's MAC address.
const GATEWAY_MAC: &str = "026167770001";

#[test]
fn the_table_holds_for_real_machines_on_the_user_space_router() {
    Place::run_with("", async |place| check(place).await);
}

#[test]
fn the_table_holds_for_real_machines_on_the_bridge() {
    Place::run_with(crate::BRIDGE, async |place| check(place).await);
}

async fn check(place: &mut Place) {
    let mut ids = BTreeMap::new();
    for (name, rules) in workspaces().into_iter().filter(|(name, _)| MACHINES.contains(name)) {
        ids.insert(name, place.create(name, rules).await);
    }
    for id in ids.values() {
        write(place, *id, "/root/attempts", ATTEMPTS).await;
        write(place, *id, "/root/services", SERVICES).await;
        place.job(*id, "exec perl /root/services").await;
        place.until(*id, "test -e /root/ready && echo ready", "ready").await;
    }
    rows(place, &ids, &MACHINES).await;
    attack(place, &ids).await;
    rows(place, &ids, &["blue-1", "green-1"]).await;
    let arrivals = place.internet.arrivals();
    assert!(arrivals.was_sent(WEB));
    for closed in [METADATA, CARRIER, LINK_LOCAL] {
        assert!(!arrivals.was_sent(closed), "{closed}");
    }
    assert!(place.internet.host_arrivals().requests().is_empty(), "the host's services");
    for id in ids.into_values() {
        place.remove(id).await;
    }
}

async fn write(place: &Place, id: WorkspaceId, path: &str, text: &str) {
    place.sh(id, &format!("cat > {path} <<'END OF FILE'\n{text}\nEND OF FILE")).await;
}

/// Tries every row of some machines, all rows of a machine in one command.
async fn rows(place: &Place, ids: &BTreeMap<&'static str, WorkspaceId>, from: &[&str]) {
    for (name, id) in ids.iter().filter(|(name, _)| from.contains(name)) {
        let (mut lines, mut tried) = (String::new(), Vec::new());
        for row in TABLE.iter().filter(|row| row.from == *name) {
            let Some(to) = destination(place, ids, row).await else { continue };
            let _ = match row.how {
                How::Tcp(port) => writeln!(lines, "tcp {to} {port}"),
                How::Udp(port) => writeln!(lines, "udp {to} {port}"),
                How::Ping => writeln!(lines, "ping {to}"),
            };
            tried.push(row);
        }
        let said = perl(place, *id, &lines).await;
        assert_eq!(said.lines().count(), tried.len(), "{said}");
        for (row, outcome) in tried.into_iter().zip(said.lines()) {
            assert_eq!(outcome, if row.is_allowed() { "reached" } else { "refused" }, "{row:?}");
        }
    }
}

/// Where a row leads, unless no machine has it. A guest's own loopback is not the host's.
async fn destination(place: &Place, ids: &BTreeMap<&'static str, WorkspaceId>, row: &Row) -> Option<String> {
    match row.to {
        To::Address(address) if address.is_loopback() => None,
        To::Address(address) => Some(address.to_string()),
        To::Name(name) => Some(name.to_owned()),
        To::Workspace(name) => Some(place.state(*ids.get(name)?).await.address?.to_string()),
    }
}

async fn perl(place: &Place, id: WorkspaceId, lines: &str) -> String {
    place.sh(id, &format!("perl /root/attempts <<'END OF LINES'\n{lines}END OF LINES")).await
}

/// Sends forged frames from one machine while two others talk.
async fn attack(place: &Place, ids: &BTreeMap<&'static str, WorkspaceId>) {
    let attacker = ids["open"];
    let victim = place.state(ids["blue-2"]).await.address.unwrap();
    let own = place.state(attacker).await.address.unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mac = hex(&attacker.mac());
    let victim_mac = hex(&ids["blue-2"].mac());
    let packet = |from: [u8; 4], to: [u8; 4]| {
        let body = hex(b"\x0f\xa0\x00\x07\x00\x0d\x00\x00hello");
        let mut header = [0x45, 0, 0, 33, 0, 0, 0, 0, 64, 17, 0, 0].to_vec();
        header.extend([from, to].concat());
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        format!("{}{body}", hex(&header))
    };
    let arp = |operation: u8, mac: &str, from: [u8; 4], to: [u8; 4]| {
        format!("000108000604000{operation}{mac}{}000000000000{}", hex(&from), hex(&to))
    };
    let (own, victim, gateway) = (own.octets(), victim.octets(), GATEWAY.octets());
    let plain = packet(own, victim);
    let frames = [
        format!("{victim_mac}{mac}0800{plain}"),
        format!("ffffffffffff{mac}0800{plain}"),
        format!("{GATEWAY_MAC}{victim_mac}0800{}", packet(victim, WEB.octets())),
        format!("{GATEWAY_MAC}{mac}0800{}", packet(victim, WEB.octets())),
        format!("{victim_mac}{GATEWAY_MAC}0800{}", packet(gateway, victim)),
        format!("{GATEWAY_MAC}{mac}0800{}", packet(own, METADATA.octets())),
        format!("ffffffffffff{mac}0806{}", arp(1, &mac, gateway, victim)),
        format!("ffffffffffff{mac}0806{}", arp(2, &mac, gateway, gateway)),
        format!("{victim_mac}{mac}0806{}", arp(2, &mac, gateway, victim)),
        format!("ffffffffffff{mac}0806{}", arp(1, &mac, own, victim)),
        format!("{GATEWAY_MAC}{mac}81000007{}{plain}", "0800"),
        format!(
            "333300000001{mac}86dd60000000000083ff{}{}8600000040000009",
            "fe".repeat(16),
            "ff".repeat(16)
        ),
        format!("ffffffffffff{mac}0800{}", packet([0; 4], [255; 4])),
        format!("{GATEWAY_MAC}{mac}0800{}", packet(own, [127, 0, 0, 1])),
        format!("{GATEWAY_MAC}{mac}080045"),
        format!("{GATEWAY_MAC}{mac}0800{}", "45".repeat(1400)),
    ];
    let lines: String = frames.iter().map(|frame| format!("frame {frame}\n")).collect();
    let said = perl(place, attacker, &lines).await;
    assert_eq!(said.matches("sent\n").count(), frames.len(), "{said}");
    // Whatever was sent has been dealt with when a later question is answered.
    assert_eq!(perl(place, attacker, &format!("ping {GATEWAY}\n")).await, "reached\n");
    for name in ["blue-1", "blue-2", "green-1"] {
        let strange = place.sh(ids[name], "cat /root/strange").await;
        assert_eq!(strange, "", "{name} saw a frame that the gateway did not send");
    }
}
