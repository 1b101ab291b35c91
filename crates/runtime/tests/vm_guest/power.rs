//! Powering off.

use std::process::Command;

use crate::bare::BareMachine;
use crate::machine::{read_until, script, sh};

#[tokio::test]
async fn the_disk_of_a_machine_that_was_powered_off_is_clean() {
    let machine = BareMachine::start().await;
    let guest = machine.settle_in().await;
    sh(&guest, "mkdir /root/d && for i in $(seq 200); do echo $i > /root/d/$i; done; dd if=/dev/zero of=/root/big bs=1M count=20 2>&1").await;
    // A process still writes, ignores SIGTERM, and holds a deleted file open.
    let busy = "trap '' TERM HUP INT; exec 3> /root/gone; rm /root/gone; echo ready; while :; do echo x >&3; echo y >> /root/log; done";
    let mut writer = guest.exec(script(busy)).await.unwrap();
    read_until(&mut writer, b"ready\n").await;
    guest.power_off().await.unwrap();
    let ended = machine.process.ended().await;
    assert_eq!(ended, "QEMU exited", "{}", machine.process.stderr_tail());

    let disk = machine.disk();
    let check = Command::new("e2fsck").args(["-f", "-n"]).arg(&disk).output().unwrap();
    let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{said}");
    assert!(!said.contains("recover") && !said.contains("orphan"), "{said}");
    let header = Command::new("dumpe2fs").arg("-h").arg(&disk).output().unwrap();
    let header = String::from_utf8_lossy(&header.stdout).into_owned();
    let state = header.lines().find(|line| line.starts_with("Filesystem state:")).unwrap();
    assert_eq!(state.split_whitespace().last(), Some("clean"), "{header}");
    assert!(!header.contains("needs_recovery"), "{header}");
    // Everything written before is on the disk.
    let found = Command::new("debugfs").args(["-R", "cat /root/d/137"]).arg(&disk).output().unwrap();
    assert_eq!(found.stdout, b"137\n");
}
