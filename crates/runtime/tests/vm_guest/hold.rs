//! Holding a machine's processes while its memory is copied.

use std::time::Duration;

use agentiso_proto::{Configure, ErrorKind, Inherit, Wake};
use agentiso_vmm::link::{Guest, WriteOptions};
use tokio::io::AsyncReadExt;

use crate::bare::BareMachine;
use crate::machine::{
    TestMachine, command, finish, read, read_until, refusal, refused, run, script, script_with_input, sh,
    until, write,
};

/// Longer than anything a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough round trips for a running process to make progress.
const ROUND_TRIPS: usize = 100;
const PLAIN: WriteOptions = WriteOptions { mode: None, append: false, parents: false };

/// Starts a process that keeps appending to a file.
async fn start_counting(guest: &Guest, file: &str) {
    sh(guest, &format!("( while :; do echo x >> {file}; done ) > /dev/null 2>&1 &")).await;
    wait_for_growth(guest, file, 0).await;
}

async fn size(guest: &Guest, file: &str) -> u64 {
    guest.stat(file, false).await.map_or(0, |metadata| metadata.size)
}

async fn wait_for_growth(guest: &Guest, file: &str, from: u64) {
    let growing = async { while size(guest, file).await <= from {} };
    tokio::time::timeout(PATIENCE, growing).await.unwrap();
}

async fn assert_still(guest: &Guest, file: &str) -> u64 {
    let before = size(guest, file).await;
    for _ in 0..ROUND_TRIPS {
        guest.ping().await.unwrap();
    }
    assert_eq!(size(guest, file).await, before, "{file} grows");
    before
}

#[tokio::test]
async fn no_process_makes_progress_while_the_machine_is_held() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    start_counting(guest, "/dev/shm/plain").await;
    // Cgroups of the user: one that runs and one that is frozen.
    sh(guest, "mkdir /sys/fs/cgroup/own /sys/fs/cgroup/paused; echo 1 > /sys/fs/cgroup/paused/cgroup.freeze")
        .await;
    let own = "echo $$ > /sys/fs/cgroup/own/cgroup.procs; ( while :; do echo x >> /dev/shm/own; done ) > /dev/null 2>&1 &";
    sh(guest, own).await;
    wait_for_growth(guest, "/dev/shm/own", 0).await;

    assert_eq!(refused(guest.release().await), ErrorKind::Invalid);
    guest.hold(false).await.unwrap();
    assert_eq!(refused(guest.hold(false).await), ErrorKind::Invalid);
    let plain = assert_still(guest, "/dev/shm/plain").await;
    let own = assert_still(guest, "/dev/shm/own").await;
    let error = refusal(run(guest, command(&["true"])).await);
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.message.contains("held"), "{}", error.message);
    // The agent itself keeps running.
    write(guest, "/root/note", b"note", PLAIN).await.unwrap();
    assert_eq!(read(guest, "/root/note", 0, None).await.unwrap(), b"note");

    guest.release().await.unwrap();
    wait_for_growth(guest, "/dev/shm/plain", plain).await;
    wait_for_growth(guest, "/dev/shm/own", own).await;
    assert_eq!(sh(guest, "cat /sys/fs/cgroup/paused/cgroup.freeze").await, "1");
    assert_eq!(refused(guest.release().await), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_held_command_can_be_killed_and_a_held_machine_powered_off() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut process = guest.exec(script("echo ready; while :; do :; done")).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    start_counting(guest, "/dev/shm/count").await;
    guest.hold(true).await.unwrap();
    process.control().cancel();
    assert!(finish(process).await.unwrap().exit.cancelled);
    assert_still(guest, "/dev/shm/count").await;
    assert!(machine.running.stop(PATIENCE).await);
}

#[tokio::test]
async fn a_hold_with_the_root_leaves_the_disk_consistent() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    start_counting(guest, "/root/count").await;
    guest.hold(true).await.unwrap();
    let held = assert_still(guest, "/root/count").await;
    assert_eq!(refused(guest.freeze().await), ErrorKind::Invalid);
    let renamed = Configure { hostname: Some("frozen".to_owned()), ..Configure::default() };
    assert!(guest.configure(renamed).await.is_err());
    guest.release().await.unwrap();
    wait_for_growth(guest, "/root/count", held).await;
    assert_eq!(refused(guest.thaw().await), ErrorKind::Invalid);
    assert_eq!(sh(guest, "echo x > /root/x; cat /root/x").await, "x");
}

#[tokio::test]
async fn processes_that_cannot_be_frozen_are_reported_and_continue() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let text = "echo $$; read -r line; echo data > /root/file; echo written";
    let mut process = guest.exec(script_with_input(text)).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    let pid = String::from_utf8(read_until(&mut process, b"\n").await).unwrap();
    start_counting(guest, "/dev/shm/count").await;
    guest.freeze().await.unwrap();
    stdin.write(b"\n").await.unwrap();
    until(guest, &format!("grep -q '^State:.D' /proc/{}/status", pid.trim())).await;

    let error = refusal(guest.hold(false).await);
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.message.contains("did not freeze"), "{}", error.message);
    let before = size(guest, "/dev/shm/count").await;
    wait_for_growth(guest, "/dev/shm/count", before).await;
    guest.thaw().await.unwrap();
    assert_eq!(finish(process).await.unwrap().stdout, b"written\n");
    guest.hold(true).await.unwrap();
    guest.release().await.unwrap();
}

#[tokio::test]
async fn a_hold_ends_with_its_session_unless_the_machine_was_restored() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    start_counting(&session, "/root/count").await;
    session.hold(true).await.unwrap();
    session.cut().await;

    // Restored: every session finds it held until it is woken.
    for _ in 0..2 {
        let session = machine.session(Inherit::Held).await;
        assert_still(&session, "/root/count").await;
        assert_eq!(refused(run(&session, command(&["true"])).await), ErrorKind::Busy);
        session.cut().await;
    }
    let session = machine.session(Inherit::Held).await;
    let held = assert_still(&session, "/root/count").await;
    assert_eq!(session.wake(Wake::default()).await.unwrap(), []);
    wait_for_growth(&session, "/root/count", held).await;
    session.cut().await;

    // Not restored: the next session ends the hold.
    for inherit in [Inherit::Keep, Inherit::Kill] {
        let session = machine.session(Inherit::Keep).await;
        session.hold(true).await.unwrap();
        let held = assert_still(&session, "/root/count").await;
        session.cut().await;
        let session = machine.session(inherit).await;
        wait_for_growth(&session, "/root/count", held).await;
        session.cut().await;
    }
}

#[tokio::test]
async fn a_hold_ends_when_no_host_reconnects() {
    let machine = BareMachine::start().await;
    let session = machine.settle_in().await;
    let mut console = machine.console().await;
    let waiting =
        "( until [ -e /dev/shm/go ]; do :; done; echo '<1>it goes on' > /dev/kmsg ) > /dev/null 2>&1 &";
    sh(&session, waiting).await;
    session.hold(true).await.unwrap();
    write(&session, "/dev/shm/go", b"", PLAIN).await.unwrap();
    session.cut().await;

    let mut said = Vec::new();
    let heard = async {
        while !String::from_utf8_lossy(&said).contains("it goes on") {
            assert_ne!(console.read_buf(&mut said).await.unwrap(), 0, "the machine ended");
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.unwrap();
}
