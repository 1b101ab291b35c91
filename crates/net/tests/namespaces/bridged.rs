//! The back end `bridge` with guests on its TAP devices.

use std::fs::File;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::NetworkRules;
use agentiso_net::bridge::Bridge;
use agentiso_net::dns::Nameservers;
use agentiso_net::plan::{DEFAULT_POOL, Pool};
use agentiso_net::{Limits, MachineSpec, Settings};
use agentiso_policy::egress::Policy;

use crate::support::*;

/// A bridge, once its uplink is there.
pub async fn start_bridge(resolv_conf: PathBuf) -> Bridge {
    let pool = Pool::parse(DEFAULT_POOL).unwrap();
    let settings = Settings { pool, nameservers: Nameservers::Host(resolv_conf) };
    let bridge = Bridge::new(settings).unwrap();
    let has_route = || inside(&bridge, "ip route show table 100").contains("default via");
    wait_until("the uplink has a route", has_route).await;
    bridge
}

/// Attaches a machine with the address 10.99.0.`last`.
pub fn tap_guest(bridge: &Bridge, last: u8, rules: NetworkRules) -> Guest {
    let spec = spec(last, rules);
    let (guest, card) = Guest::new(&spec);
    relay(card, bridge.attach(spec).unwrap());
    guest
}

pub fn spec(last: u8, rules: NetworkRules) -> MachineSpec {
    MachineSpec {
        workspace: workspace(last),
        address: Ipv4Addr::new(10, 99, 0, last),
        mtu: 1500,
        card: "card".to_owned(),
        limits: Limits::default(),
        policy: Policy::check(&rules).unwrap(),
    }
}

/// Runs a command line in the namespace of the bridge.
pub fn inside(bridge: &Bridge, line: &str) -> String {
    let output = std::process::Command::new("nsenter")
        .arg(format!("--net={}", bridge.namespace().display()))
        .args(["sh", "-c", line])
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits for something that the bridge does by itself.
pub async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it did not happen that {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Passes frames between a guest's card and a TAP device, as QEMU does, until either is closed.
fn relay(card: OwnedFd, tap: OwnedFd) {
    let card = UnixDatagram::from(card);
    card.set_nonblocking(false).unwrap();
    let (mut reader, mut writer) = (File::from(tap.try_clone().unwrap()), File::from(tap));
    let sender = card.try_clone().unwrap();
    std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        while let Ok(length) = reader.read(&mut frame) {
            if sender.send(&frame[..length]).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        let mut frame = vec![0; 70_000];
        while let Ok(length) = card.recv(&mut frame) {
            // The kernel refuses what is no frame, as a network does.
            if length == 0
                || writer.write(&frame[..length]).is_err_and(|error| error.raw_os_error() == Some(77))
            {
                return;
            }
        }
    });
}
