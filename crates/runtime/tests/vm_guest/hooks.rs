//! Waking a machine: its identity, then its hooks, then its processes.

use agentiso_proto::{Configure, ExitStatus, HookOutcome, HookReport, Wake, WakeEvent};

use crate::machine::{TestMachine, read, sh, until};

const HOOKS_MS: u32 = 20_000;
const LOG: &str = "/dev/shm/log";

/// A machine with hooks, each given as name and script.
async fn with_hooks(hooks: &[(&str, &str)]) -> TestMachine {
    let machine = TestMachine::start().await;
    machine.sh("mkdir -p /etc/agentiso/hooks.d").await;
    for (name, text) in hooks {
        machine.sh(&format!("cat > /etc/agentiso/hooks.d/{name} <<'END'\n#!/bin/sh\n{text}\nEND")).await;
        machine.sh(&format!("chmod 755 /etc/agentiso/hooks.d/{name}")).await;
    }
    machine
}

fn fork() -> Wake {
    Wake { event: WakeEvent::Fork, hooks_ms: Some(HOOKS_MS), ..Wake::default() }
}

fn ended(name: &str, code: i32, output: &str) -> HookReport {
    report(name, HookOutcome::Exited(ExitStatus::Code(code)), output)
}

fn skipped(name: &str, reason: &str) -> HookReport {
    report(name, HookOutcome::Skipped(reason.to_owned()), "")
}

fn report(name: &str, outcome: HookOutcome, output: &str) -> HookReport {
    HookReport { name: name.to_owned(), outcome, output: output.as_bytes().to_vec() }
}

#[tokio::test]
async fn hooks_run_in_order_and_before_user_processes_continue() {
    let machine = with_hooks(&[
        (
            "10-first",
            &format!("echo first $AGENTISO_EVENT $AGENTISO_WORKSPACE $(hostname) >> {LOG}; pwd; id -u"),
        ),
        ("20-last", &format!("echo last >> {LOG}")),
    ])
    .await;
    let guest = machine.guest();
    sh(guest, &format!("( while :; do echo user >> {LOG}; done ) > /dev/null 2>&1 &")).await;
    until(guest, &format!("[ -s {LOG} ]")).await;
    guest.hold(true).await.unwrap();
    let held = guest.stat(LOG, false).await.unwrap().size;
    let identity = Configure { hostname: Some("forked".to_owned()), ..Configure::default() };
    let reports = guest.wake(Wake { identity, ..fork() }).await.unwrap();
    assert_eq!(reports, [ended("10-first", 0, "/\n0\n"), ended("20-last", 0, "")]);

    until(guest, &format!("[ $(stat -c %s {LOG}) -gt {} ]", held + 100)).await;
    let since = String::from_utf8(read(guest, LOG, held, Some(100)).await.unwrap()).unwrap();
    let lines: Vec<_> = since.lines().take(3).collect();
    assert_eq!(lines, ["first fork forked forked", "last", "user"]);
    assert_eq!(sh(guest, "cat /etc/hostname").await, "forked");
}

#[tokio::test]
async fn failing_hooks_are_reported_and_do_not_stop_the_others() {
    let machine = with_hooks(&[
        ("10-fails", "echo no luck; exit 3"),
        ("20-killed", "kill -9 $$"),
        ("30-speaks", "head -c 100000 /dev/zero | tr '\\0' a; echo end"),
        ("40-leaves-a-daemon", "setsid sleep 1000 & echo $! > /dev/shm/daemon"),
    ])
    .await;
    let guest = machine.guest();
    sh(guest, "printf 'no program' > /etc/agentiso/hooks.d/50-bad; chmod 755 /etc/agentiso/hooks.d/50-bad")
        .await;
    let reports = guest.wake(Wake { event: WakeEvent::Restore, ..fork() }).await.unwrap();
    assert_eq!(reports.len(), 5, "{reports:?}");
    assert_eq!(reports[0], ended("10-fails", 3, "no luck\n"));
    assert_eq!(reports[1], report("20-killed", HookOutcome::Exited(ExitStatus::Signal(9)), ""));
    assert_eq!(reports[2].outcome, HookOutcome::Exited(ExitStatus::Code(0)));
    assert!(reports[2].output.len() <= 1024 && reports[2].output.ends_with(b"aaaaend\n"), "{reports:?}");
    assert_eq!(reports[3], ended("40-leaves-a-daemon", 0, ""));
    assert_eq!(reports[4].outcome, HookOutcome::Exited(ExitStatus::Code(127)), "the shell runs it");
    sh(guest, "kill -0 $(cat /dev/shm/daemon)").await;
}

#[tokio::test]
async fn hooks_that_time_out_are_killed_with_their_children() {
    let machine = with_hooks(&[
        ("10-slow", "setsid env -i sleep 1000 & echo $! > /dev/shm/daemon; echo waiting; sleep 1000"),
        ("20-late", "echo late > /dev/shm/late"),
    ])
    .await;
    let guest = machine.guest();
    guest.hold(false).await.unwrap();
    let reports = guest.wake(Wake { hooks_ms: Some(3000), ..fork() }).await.unwrap();
    assert_eq!(
        reports,
        [report("10-slow", HookOutcome::TimedOut, "waiting\n"), report("20-late", HookOutcome::TimedOut, "")]
    );
    sh(guest, "! kill -0 $(cat /dev/shm/daemon) && [ ! -e /dev/shm/late ]").await;
}

#[tokio::test]
async fn hooks_that_other_users_could_have_written_are_not_run() {
    let machine = with_hooks(&[]).await;
    let guest = machine.guest();
    let make = "cd /etc/agentiso/hooks.d
        for name in 10-foreign 20-open 30-group 40-plain 60-good 70-backup~; do
            printf '#!/bin/sh\\necho $0 >> /dev/shm/ran\\n' > $name; chmod 755 $name
        done
        chown 1000 10-foreign; chmod 757 20-open; chmod 775 30-group; chmod 644 40-plain
        ln -s 60-good 50-link; mkdir 80-directory";
    sh(guest, make).await;
    let expected = [
        skipped("10-foreign", "is not owned by root"),
        skipped("20-open", "is writable by users other than root"),
        skipped("30-group", "is writable by users other than root"),
        skipped("40-plain", "is not executable"),
        skipped("50-link", "is not a regular file"),
        ended("60-good", 0, ""),
        skipped("80-directory", "is not a regular file"),
    ];
    assert_eq!(guest.wake(fork()).await.unwrap(), expected);
    assert_eq!(sh(guest, "cat /dev/shm/ran").await, "/etc/agentiso/hooks.d/60-good");

    assert_eq!(guest.wake(Wake { hooks_ms: None, ..fork() }).await.unwrap(), []);
    sh(guest, "chmod 777 /etc/agentiso/hooks.d").await;
    let reason = "/etc/agentiso/hooks.d is writable by users other than root";
    assert_eq!(guest.wake(fork()).await.unwrap(), [skipped("hooks.d", reason)]);
    sh(guest, "rm -r /etc/agentiso").await;
    assert_eq!(guest.wake(fork()).await.unwrap(), []);
    assert_eq!(sh(guest, "wc -l < /dev/shm/ran").await, "1");
}

#[tokio::test]
async fn a_machine_stays_held_if_its_identity_is_rejected() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    sh(guest, &format!("( while :; do echo user >> {LOG}; done ) > /dev/null 2>&1 &")).await;
    until(guest, &format!("[ -s {LOG} ]")).await;
    guest.hold(true).await.unwrap();
    let held = guest.stat(LOG, false).await.unwrap().size;
    let identity = Configure { entropy: Some(vec![1; 8]), ..Configure::default() };
    assert!(guest.wake(Wake { identity, ..fork() }).await.is_err());
    for _ in 0..100 {
        guest.ping().await.unwrap();
    }
    assert_eq!(guest.stat(LOG, false).await.unwrap().size, held);
    guest.wake(fork()).await.unwrap();
    until(guest, &format!("[ $(stat -c %s {LOG}) -gt {held} ]")).await;
}

#[tokio::test]
async fn waking_a_machine_sets_its_boot_id() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let look = "cat /proc/sys/kernel/random/boot_id";
    let own = sh(guest, look).await;
    assert_eq!(sh(guest, look).await, own);
    for id in [*b"0123456789abcdef", [0xfe; 16]] {
        guest.wake(Wake { boot_id: Some(id), ..Wake::default() }).await.unwrap();
        let text = uuid::Uuid::from_bytes(id).to_string();
        assert_ne!(own, text);
        assert_eq!(sh(guest, look).await, text);
    }
    let before = sh(guest, look).await;
    guest.wake(fork()).await.unwrap();
    sh(guest, "! echo x > /proc/sys/kernel/random/boot_id").await;
    assert_eq!(sh(guest, look).await, before);
}
