//! What distinguishes two clones of one memory image.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agentiso_runtime::Tier;

use crate::machine::TestMachine;

/// A larger difference means that a clock is wrong.
const CLOCK_TOLERANCE_SECS: f64 = 2.0;

#[tokio::test]
async fn clones_differ_in_randomness_names_and_addresses_and_agree_on_the_time() {
    let (one, two) = tokio::join!(TestMachine::start(), TestMachine::start());
    let mut drawn = HashSet::new();
    for machine in [&one, &two] {
        assert_eq!(machine.running.tier, Tier::WarmTemplate);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let earliest = now();
        let clock: f64 = machine.sh("date +%s.%N").await.parse().unwrap();
        assert!(clock > earliest - CLOCK_TOLERANCE_SECS && clock < now() + CLOCK_TOLERANCE_SECS, "{clock}");

        let random = machine
            .sh("head -c 32 /dev/urandom | od -An -tx1; head -c 32 /dev/random | od -An -tx1; cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id; mktemp -u")
            .await;
        assert_eq!(random.lines().count(), 7);
        for line in random.lines() {
            assert!(drawn.insert(line.to_owned()), "drawn twice: {line}");
        }

        let name = format!("ws-{}", machine.id.short());
        assert_eq!(
            machine.sh("hostname; cat /etc/hostname; uname -n").await,
            format!("{name}\n{name}\n{name}")
        );
        let hosts = machine.sh("cat /etc/hosts").await;
        assert_eq!(
            hosts.lines().filter(|line| line.starts_with("127.0.1.1")).collect::<Vec<_>>(),
            [format!("127.0.1.1 {name}")]
        );
        assert!(
            hosts.lines().any(|line| line.starts_with("127.0.0.1") && line.contains("localhost")),
            "{hosts}"
        );
        assert_eq!(machine.sh("getent hosts $(hostname) | cut -d' ' -f1").await, "127.0.1.1");
        assert_eq!(machine.sh("cat /etc/machine-id").await, machine.id.machine_id());
        let mac = machine.id.mac().map(|byte| format!("{byte:02x}")).join(":");
        assert_eq!(machine.sh("cat /sys/class/net/eth0/address").await, mac);
    }
    assert_ne!(one.sh("cat /etc/machine-id").await, two.sh("cat /etc/machine-id").await);
    // Writes of one are not visible in the other.
    one.sh("echo mine > /root/mine").await;
    assert_eq!(two.sh("ls -A /root/mine 2>/dev/null || echo none").await, "none");
}

#[tokio::test]
async fn the_clock_is_set_correctly_despite_delays() {
    let machine = TestMachine::start().await;
    // Relative to the monotonic clock, so delays do not matter.
    let (ahead_secs, before) = (1_000_000_000, machine.guest().steady_clock().await.unwrap());
    machine.sh("date -s @900000000").await;
    machine.guest().set_clock(ahead_secs * 1_000_000_000).await.unwrap();
    let said = machine.sh("echo $(date +%s.%N) $(cat /proc/uptime)").await;
    let numbers: Vec<f64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
    let (wall, uptime) = (numbers[0], numbers[1]);
    let steady = Duration::from_nanos(before).as_secs_f64();
    assert!(uptime > steady - 0.02, "{steady} {said}");
    assert!((wall - ahead_secs as f64 - uptime).abs() < CLOCK_TOLERANCE_SECS, "{said}");
}
