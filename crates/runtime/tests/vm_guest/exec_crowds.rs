//! Many commands, side by side and one after the other.

use agentiso_proto::{ExitStatus, Status};
use agentiso_vmm::link::{Guest, Process};

use crate::machine::{
    TestMachine, command, finish, read, read_until, run, script, script_with_input, started, until,
};

/// Growth of the agent's memory that says nothing: the allocator's, not a leak's.
const RSS_SLACK_KIB: u64 = 512;

#[tokio::test]
async fn a_command_whose_output_nobody_takes_holds_up_nobody_else() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut stalled = guest.exec(command(&["yes"])).await.unwrap();
    let pid = started(&mut stalled).await;
    let flood = guest.read_file(b"/dev/../bin/bash".as_slice(), 0, None).await.unwrap();
    // Asleep in a write to a full pipe: it has filled the host's window and its own pipe.
    until(guest, &format!("grep -q pipe_w /proc/{pid}/wchan || grep -q '^State:.S' /proc/{pid}/status")).await;
    guest.ping().await.unwrap();
    let ran = run(guest, script("echo alive; head -c 3000000 /dev/zero >&2")).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.stderr.len()), (&b"alive\n"[..], 3_000_000));
    assert_eq!(guest.status().await.unwrap().running, 1);

    // What was written before is all there and in order when somebody takes it.
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
            Some(agentiso_vmm::link::ProcessEvent::Stdout(bytes)) => taken.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    taken
}

#[tokio::test]
async fn two_hundred_commands_run_at_once_and_leave_nothing() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    settle(guest).await;
    let before = guest.status().await.unwrap();
    let mut processes = Vec::new();
    for number in 0..200 {
        let text = format!("echo ready; read -r line; echo {number} $line; exit {}", number % 7);
        processes.push(guest.exec(script_with_input(&text)).await.unwrap());
    }
    for process in &mut processes {
        read_until(process, b"ready\n").await;
    }
    assert_eq!(guest.status().await.unwrap().running, 200);
    guest.ping().await.unwrap();
    for (number, mut process) in processes.into_iter().enumerate().rev() {
        let mut stdin = process.take_stdin().unwrap();
        stdin.write(format!("for {number}\n").as_bytes()).await.unwrap();
        let ran = finish(process).await.unwrap();
        assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("{number} for {number}\n"));
        assert_eq!(ran.exit.status, ExitStatus::Code(number as i32 % 7));
    }
    settle(guest).await;
    let after = guest.status().await.unwrap();
    assert_eq!((after.open_fds, after.zombies, after.running), (before.open_fds, 0, 0));
    assert!(after.threads <= before.threads + 3, "{before:?} {after:?}");
}

#[tokio::test]
async fn three_hundred_commands_in_a_row_leave_the_agent_as_it_was() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    many(guest, 30).await;
    let before = guest.status().await.unwrap();
    many(guest, 300).await;
    let after = guest.status().await.unwrap();
    let shape = |status: &Status| (status.open_fds, status.threads, status.zombies, status.running);
    assert_eq!(shape(&after), shape(&before));
    assert!(after.rss_kib <= before.rss_kib + RSS_SLACK_KIB, "{before:?} {after:?}");
}

/// Commands of every kind: quiet, with orphans, with output, failing, with a terminal, unable to start.
async fn many(guest: &Guest, count: usize) {
    for number in 0..count {
        match number % 6 {
            0 => drop(run(guest, script("(true &) ; (setsid true &)")).await.unwrap()),
            1 => drop(run(guest, script("echo x; echo y >&2; exit 3")).await.unwrap()),
            2 => drop(run(guest, agentiso_proto::Exec { tty: Some((9, 9)), ..command(&["true"]) }).await.unwrap()),
            3 => drop(run(guest, command(&["no-such-command"])).await.unwrap_err()),
            _ => drop(run(guest, command(&["true"])).await.unwrap()),
        }
    }
    settle(guest).await;
}

/// Waits until the orphans are reaped.
async fn settle(guest: &Guest) {
    until(guest, "! grep -qs '^State:.Z' /proc/[0-9]*/status").await;
}
