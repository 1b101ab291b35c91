//! The root file system as a whole: freezing, growing, status.

use agentiso_core::Resources;
use agentiso_proto::{Configure, ErrorKind};
use serde_json::json;

use crate::machine::{TestMachine, finish, read, read_until, refused, script_with_input, sh, until};

#[tokio::test]
async fn a_frozen_root_blocks_writes_until_it_is_thawed() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let text = "echo $$; read -r line; echo data > /root/file; echo written; read -r line; echo more > /root/file; echo again";
    let mut process = guest.exec(script_with_input(text)).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    let pid = String::from_utf8(read_until(&mut process, b"\n").await).unwrap();
    let blocked = format!("grep -q '^State:.D' /proc/{}/status", pid.trim());

    assert_eq!(refused(guest.thaw().await), ErrorKind::Invalid);
    guest.freeze().await.unwrap();
    assert_eq!(refused(guest.freeze().await), ErrorKind::Invalid);
    assert_eq!(refused(guest.grow().await), ErrorKind::Invalid);
    assert!(
        guest
            .configure(Configure { hostname: Some("frozen".to_owned()), ..Configure::default() })
            .await
            .is_err()
    );
    stdin.write(b"\n").await.unwrap();
    // Only the root is frozen: other commands run, and can write elsewhere.
    until(guest, &blocked).await;
    assert_eq!(sh(guest, "echo ok > /dev/shm/x; cat /dev/shm/x").await, "ok");
    assert_eq!(read(guest, "/dev/shm/x", 0, None).await.unwrap(), b"ok\n");
    assert!(guest.status().await.unwrap().root_bytes > 0);
    guest.thaw().await.unwrap();
    assert_eq!(read_until(&mut process, b"written\n").await, b"written\n");
    assert_eq!(read(guest, "/root/file", 0, None).await.unwrap(), b"data\n");

    guest.freeze().await.unwrap();
    stdin.write(b"\n").await.unwrap();
    until(guest, &blocked).await;
    guest.thaw().await.unwrap();
    assert_eq!(finish(process).await.unwrap().stdout, b"again\n");
    guest.sync().await.unwrap();
}

#[tokio::test]
async fn a_machine_with_a_frozen_root_still_powers_off() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut process =
        guest.exec(script_with_input("echo ready; read -r line; echo x > /root/file")).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    read_until(&mut process, b"ready\n").await;
    guest.freeze().await.unwrap();
    stdin.write(b"\n").await.unwrap();
    assert!(machine.running.stop(std::time::Duration::from_secs(60)).await);
}

#[tokio::test]
async fn the_root_grows_with_its_disk_and_the_status_agrees() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let Resources { memory_mb, .. } = Resources::default();
    let before = guest.status().await.unwrap();
    let df = async || machine.sh("df -B1 --output=size,avail / | tail -1").await;
    let figures: Vec<u64> = df().await.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!(before.root_bytes, figures[0]);
    assert!(before.root_free_bytes.abs_diff(figures[1]) < 1 << 20, "{before:?} {figures:?}");
    let total = u64::from(memory_mb) * 1024;
    assert!((total * 3 / 4..=total).contains(&before.mem_total_kib), "{before:?}");
    assert!((1..before.mem_total_kib).contains(&before.mem_available_kib), "{before:?}");
    assert!((100..100_000).contains(&before.rss_kib), "{before:?}");
    assert!((3..64).contains(&before.open_fds) && (3..32).contains(&before.threads), "{before:?}");
    assert_eq!((before.zombies, before.running), (0, 0));

    // The disk has not grown yet.
    guest.grow().await.unwrap();
    assert_eq!(guest.status().await.unwrap().root_bytes, before.root_bytes);
    let larger = Resources::default().disk_bytes() + (2 << 30);
    machine
        .running
        .machine
        .qmp()
        .execute("block_resize", json!({ "device": "root", "size": larger }))
        .await
        .unwrap();
    until(guest, &format!("[ $(cat /sys/block/vda/size) = {} ]", larger / 512)).await;
    guest.grow().await.unwrap();
    let after = guest.status().await.unwrap();
    assert!(after.root_bytes >= before.root_bytes + (2 << 30) / 10 * 9, "{before:?} {after:?}");
    assert!(df().await.starts_with(&after.root_bytes.to_string()));
    machine.sh("fallocate -l 9G /root/big && echo x >> /root/big && sync && rm /root/big").await;
}
