//! Many commands, concurrent and sequential.

use agentiso_proto::{Exec, ExitStatus, Status};
use agentiso_vmm::link::{Guest, Process, ProcessEvent, WriteOptions};

use crate::machine::{TestMachine, command, finish, read, run, script, started, until, write};

/// Growth of the agent's memory that is due to the allocator and not a leak.
const RSS_SLACK_KIB: u64 = 512;

#[tokio::test]
async fn a_command_with_unread_output_does_not_block_others() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut stalled = guest.exec(command(&["yes"])).await.unwrap();
    let pid = started(&mut stalled).await;
    let flood = guest.read_file(b"/bin/bash".as_slice(), 0, None).await.unwrap();
    // Blocked in a write to a full pipe, because nobody reads what the agent has forwarded.
    until(guest, &format!("grep -q '^State:.S' /proc/{pid}/status")).await;
    guest.ping().await.unwrap();
    let ran = run(guest, script("echo alive; head -c 3000000 /dev/zero >&2")).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.stderr.len()), (&b"alive\n"[..], 3_000_000));
    assert_eq!(guest.status().await.unwrap().running, 1);

    // Everything written before is complete and in order when it is read.
    let taken = read_some(&mut stalled, 3_000_000).await;
    assert!(taken.chunks_exact(2).all(|line| line == b"y\n"));
    drop((stalled, flood));
    until(guest, &format!("! grep -qs '^State:.[^ZX]' /proc/{pid}/status")).await;
    assert_eq!(read(guest, "/etc/hostname", 0, None).await.unwrap().last(), Some(&b'\n'));
}

async fn read_some(process: &mut Process, len: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while taken.len() < len {
        match process.next().await.unwrap() {
            Some(ProcessEvent::Stdout(bytes)) => taken.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    taken
}

#[tokio::test]
async fn two_hundred_concurrent_commands_leave_nothing_behind() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    install_echo(guest).await;
    let before = at_rest(guest).await;
    let mut processes = Vec::new();
    for _ in 0..200 {
        processes.push(guest.exec(Exec { stdin: true, ..command(&[ECHO]) }).await.unwrap());
    }
    for process in &mut processes {
        started(process).await;
    }
    assert_eq!(guest.status().await.unwrap().running, 200);
    guest.ping().await.unwrap();
    for (number, mut process) in processes.into_iter().enumerate().rev() {
        let mut stdin = process.take_stdin().unwrap();
        stdin.write(format!("for {number}").as_bytes()).await.unwrap();
        let ran = finish(process).await.unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("for {number}"));
        assert_eq!(ran.exit.status, ExitStatus::Code(0));
    }
    let after = at_rest(guest).await;
    assert_eq!((after.open_fds, after.zombies, after.running), (before.open_fds, 0, 0));
    assert!(after.threads <= before.threads + 3, "{before:?} {after:?}");
}

#[tokio::test]
async fn three_hundred_sequential_commands_leak_nothing() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    install_echo(guest).await;
    many(guest, 30).await;
    let before = at_rest(guest).await;
    many(guest, 300).await;
    let after = at_rest(guest).await;
    let shape = |status: &Status| (status.open_fds, status.threads, status.zombies, status.running);
    assert_eq!(shape(&after), shape(&before));
    assert!(after.rss_kib <= before.rss_kib + RSS_SLACK_KIB, "{before:?} {after:?}");
}

/// Commands of every kind: quiet ones, one with orphans, one with a terminal, one that cannot start.
async fn many(guest: &Guest, count: usize) {
    for number in 0..count {
        match number % 20 {
            0 => drop(run(guest, script("(:) & (setsid true &) ; echo x >&2; exit 3")).await.unwrap()),
            1 => drop(run(guest, Exec { tty: Some((9, 9)), ..command(&[ECHO]) }).await.unwrap()),
            2 => drop(run(guest, command(&["no-such-command"])).await.unwrap_err()),
            _ => drop(run(guest, command(&[ECHO])).await.unwrap()),
        }
    }
}

/// A program so small that hundreds of them cost almost nothing, even emulated: it reads once, writes what it read, and
/// exits.
const ECHO: &str = "/root/echo";

async fn install_echo(guest: &Guest) {
    const CODE: &[u8] =
        b"\x31\xc0\x31\xff\x48\x81\xec\x00\x01\x00\x00\x48\x89\xe6\xba\x00\x01\x00\x00\x0f\x05\
        \x89\xc2\xb8\x01\x00\x00\x00\xbf\x01\x00\x00\x00\x0f\x05\
        \xb8\x3c\x00\x00\x00\x31\xff\x0f\x05";
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let size = HEADERS + CODE.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    // Executable, x86-64, version; entry, program headers, no section headers; sizes and counts.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    elf.extend([BASE + HEADERS, 64, 0].map(u64::to_le_bytes).concat());
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // One loadable segment, readable and executable.
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    elf.extend([0, BASE, BASE, size, size, 4096].map(u64::to_le_bytes).concat());
    elf.extend(CODE);
    let executable = WriteOptions { mode: Some(0o755), ..WriteOptions::default() };
    write(guest, ECHO, &elf, executable).await.unwrap();
}

/// The agent's status once all orphans are reaped. The host learns of a command's exit before the agent has cleaned up,
/// during which it briefly has a file open. Only what is open in every sample counts.
async fn at_rest(guest: &Guest) -> Status {
    const LOOKS: usize = 10;
    until(guest, "! grep -qs '^State:.Z' /proc/[0-9]*/status").await;
    let mut rest = guest.status().await.unwrap();
    for _ in 1..LOOKS {
        let status = guest.status().await.unwrap();
        if status.open_fds < rest.open_fds {
            rest = status;
        }
    }
    rest
}
