//! Ending commands with everything that descends from them.

use agentiso_proto::{Exec, ExitStatus};
use agentiso_vmm::link::Guest;

use crate::machine::{TestMachine, finish, read_until, script, sh, until};

/// Leaves behind, each in a way of its own, five processes that would outlive the command: a plain child, one in a
/// session of its own, an orphan, an orphan in a session of its own that ignores what can be ignored, and one that has
/// also forgotten its environment, so that nothing but its control group tells where it comes from.
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

/// The members of the family that still do something.
async fn survivors(guest: &Guest) -> String {
    let look = "for file in /root/pids.*; do pid=$(cat $file); \
                if grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null; then echo ${file##*.}; fi; done";
    sh(guest, look).await
}

#[tokio::test]
async fn a_cancelled_command_takes_its_daemons_with_it() {
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

    // Dropping the process is cancelling it.
    let mut process = guest.exec(script(&format!("{FAMILY} wait"))).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    drop(process);
    until(guest, "! grep -qs '^State:.[^ZX]' $(sed 's,.*,/proc/&/status,' /root/pids.*)").await;
    assert_eq!(survivors(guest).await, "");
    assert_eq!(guest.status().await.unwrap().running, 0);
}

#[tokio::test]
async fn a_command_whose_time_is_up_takes_its_daemons_with_it() {
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
async fn a_command_that_ends_by_itself_leaves_its_daemons_running_and_does_not_wait_for_them() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let ran = crate::machine::run(guest, script(FAMILY)).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.exit.status), (&b"ready\n"[..], ExitStatus::Code(0)));
    assert_eq!(survivors(guest).await, "1\n2\n3\n4\n5");
    // Orphans are reaped when they end, whoever their parent was.
    machine.sh("kill -9 $(cat /root/pids.*)").await;
    until(guest, "! ls -d $(sed 's,^,/proc/,' /root/pids.*) 2>/dev/null").await;
    assert_eq!(guest.status().await.unwrap().zombies, 0);
}
