//! Killing commands with all their descendants.

use agentiso_proto::{Exec, ExitStatus};
use agentiso_vmm::link::Guest;

use crate::machine::{TestMachine, finish, read_until, script, sh, until};

/// Leaves five processes behind that would outlive the command: a plain child, one in its own session, an orphan, an
/// orphan in its own session that ignores all signals it can, and one that has also cleared its environment, so that
/// only its cgroup shows where it came from.
const FAMILY: &str = r#"
cd /root && rm -f pids.*
sh -c 'echo $$ > pids.1; exec sleep 1000' &
setsid sh -c 'echo $$ > pids.2; exec sleep 1000' &
( sh -c 'echo $$ > pids.3; exec sleep 1000' & )
( setsid sh -c '( trap "" TERM HUP INT; sh -c "echo \$\$ > pids.4; exec sleep 1000" ) & ' & )
( setsid env -i /bin/sh -c '( /bin/sh -c "echo \$\$ > pids.5; exec sleep 1000" & )' & )
for i in 1 2 3 4 5; do until [ -s pids.$i ]; do sleep 0.01; done; done
echo ready
"#;

/// The processes of the family that are still alive.
async fn survivors(guest: &Guest) -> String {
    let look = "for file in /root/pids.*; do pid=$(cat $file); \
                if grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null; then echo ${file##*.}; fi; done";
    sh(guest, look).await
}

#[tokio::test]
async fn cancelling_a_command_kills_its_daemons() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut process = guest.exec(script(&format!("{FAMILY} wait"))).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    assert_eq!(survivors(guest).await, "1\n2\n3\n4\n5");
    process.control().cancel();
    let ran = finish(process).await.unwrap();
    assert_eq!(ran.exit.status, ExitStatus::Signal(9));
    assert!(ran.exit.cancelled && !ran.exit.timed_out);
    assert_eq!(survivors(guest).await, "");

    // Dropping the process cancels it.
    let mut process = guest.exec(script(&format!("{FAMILY} wait"))).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    drop(process);
    until(guest, "! grep -qs '^State:.[^ZX]' $(sed 's,.*,/proc/&/status,' /root/pids.*)").await;
    assert_eq!(survivors(guest).await, "");
    assert_eq!(guest.status().await.unwrap().running, 0);
}

#[tokio::test]
async fn a_timeout_kills_the_daemons_of_a_command() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut process =
        guest.exec(Exec { timeout_ms: Some(3000), ..script(&format!("{FAMILY} wait")) }).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    let ran = finish(process).await.unwrap();
    assert_eq!(ran.exit.status, ExitStatus::Signal(9));
    assert!(ran.exit.timed_out && !ran.exit.cancelled);
    assert!(ran.exit.usage.wall_us >= 3_000_000);
    assert_eq!(survivors(guest).await, "");
}

#[tokio::test]
async fn a_command_that_exits_leaves_its_daemons_running_without_waiting_for_them() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let ran = crate::machine::run(guest, script(FAMILY)).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.exit.status), (&b"ready\n"[..], ExitStatus::Code(0)));
    assert_eq!(survivors(guest).await, "1\n2\n3\n4\n5");
    // Orphans are reaped when they exit.
    machine.sh("kill -9 $(cat /root/pids.*)").await;
    until(guest, "! ls -d $(sed 's,^,/proc/,' /root/pids.*) 2>/dev/null").await;
    assert_eq!(guest.status().await.unwrap().zombies, 0);
}
