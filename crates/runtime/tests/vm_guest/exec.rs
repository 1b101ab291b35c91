//! Commands: input, output and exit status.

use agentiso_proto::{ErrorKind, Exec, ExitStatus, User};
use agentiso_vmm::link::{LinkError, ProcessEvent, WriteOptions};

use crate::machine::{
    Ran, TestMachine, command, finish, read_until, refused, run, script, script_with_input, started, write,
};

#[tokio::test]
async fn output_arrives_while_the_command_waits_for_input() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let mut process = guest
        .exec(script_with_input("echo out; echo err >&2; read -r line; echo \"got $line\"; cat"))
        .await
        .unwrap();
    let mut stdin = process.take_stdin().unwrap();
    started(&mut process).await;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while stdout != b"out\n" || stderr != b"err\n" {
        match process.next().await.unwrap() {
            Some(ProcessEvent::Stdout(bytes)) => stdout.extend_from_slice(&bytes),
            Some(ProcessEvent::Stderr(bytes)) => stderr.extend_from_slice(&bytes),
            other => panic!("{other:?}"),
        }
    }
    stdin.write(b"it\nrest").await.unwrap();
    stdin.close();
    let ran = finish(process).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.exit.status), (&b"got it\nrest"[..], ExitStatus::Code(0)));

    // A command that exits without reading all of its input has not failed.
    let mut process = guest.exec(script_with_input("exit 4")).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    assert!(matches!(stdin.write(&vec![0; 8 << 20]).await, Err(LinkError::InputEnded)));
    assert_eq!(finish(process).await.unwrap().exit.status, ExitStatus::Code(4));
}

#[tokio::test]
async fn arguments_environment_directory_and_user_reach_the_command_unchanged() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let bytes = b"\xff\xfe \n'\"$x\\".to_vec();

    let mut exec = script("printf %s \"$1$A\"; test \"$#\" = 2");
    exec.argv.extend([b"sh".to_vec(), bytes.clone(), Vec::new()]);
    exec.env.push((b"A".to_vec(), bytes.clone()));
    let ran = run(guest, exec).await.unwrap();
    assert_eq!(ran.stdout, [bytes.clone(), bytes].concat());
    assert_eq!(ran.exit.status, ExitStatus::Code(0));

    let nothing = run(guest, script("cat; pwd; echo $HOME $USER")).await.unwrap();
    assert_eq!(nothing.stdout, b"/root\n/root root\n");

    let workdir = Some(b"/usr/lib".to_vec());
    let ran = run(guest, Exec { workdir, ..command(&["pwd"]) }).await.unwrap();
    assert_eq!(ran.stdout, b"/usr/lib\n");

    let append = WriteOptions { append: true, ..WriteOptions::default() };
    write(guest, "/etc/passwd", b"tester:x:1234:1235::/home/tester:/bin/sh\n", append).await.unwrap();
    write(guest, "/etc/group", b"testers:x:1235:\nextra:x:4242:x,tester\nmore:x:4243:tester\n", append)
        .await
        .unwrap();
    machine.sh("mkdir -p /home/tester").await;
    let who = "id -u; id -g; id -G; pwd; echo $HOME $USER; touch /root/mine 2>/dev/null || echo denied";
    let named = Exec { user: Some(User::Name("tester".to_owned())), ..script(who) };
    let ran = run(guest, named).await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(said, "1234\n1235\n1235 4242 4243\n/home/tester\n/home/tester tester\ndenied\n");

    let numbers = Exec { user: Some(User::Id { uid: 7777, gid: 8888 }), ..script("id -u; id -G; umask") };
    assert_eq!(run(guest, numbers).await.unwrap().stdout, b"7777\n8888\n0022\n");
}

#[tokio::test]
async fn a_command_that_cannot_start_reports_the_reason() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let refused_for = async |exec: Exec| refused(run(guest, exec).await);
    assert_eq!(refused_for(command(&["no-such-command"])).await, ErrorKind::NotFound);
    assert_eq!(refused_for(command(&["/no/such/command"])).await, ErrorKind::NotFound);
    assert_eq!(refused_for(command(&["/etc/passwd"])).await, ErrorKind::Denied);
    assert_eq!(refused_for(command(&["/usr"])).await, ErrorKind::Denied);
    let nobody = Some(User::Name("no-such-user".to_owned()));
    assert_eq!(refused_for(Exec { user: nobody, ..command(&["true"]) }).await, ErrorKind::NotFound);
    let nowhere = Some(b"/no/such/place".to_vec());
    assert_eq!(refused_for(Exec { workdir: nowhere, ..command(&["true"]) }).await, ErrorKind::NotFound);
    assert_eq!(refused_for(command(&[])).await, ErrorKind::Invalid);

    machine.sh("printf 'echo \"plain $1\"' > /root/plain; chmod +x /root/plain; printf '#!/no/such\\n' > /root/broken; chmod +x /root/broken").await;
    let Ran { stdout, .. } = run(guest, command(&["/root/plain", "script"])).await.unwrap();
    assert_eq!(stdout, b"plain script\n");
    assert_eq!(refused_for(command(&["/root/broken"])).await, ErrorKind::NotFound);
    assert_eq!(guest.status().await.unwrap().running, 0);
}

#[tokio::test]
async fn a_terminal_has_a_size_that_can_change_and_sends_interrupts() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let text = "test -t 0 && test -t 1 && stty size; read -r line; stty size; echo $TERM; tty";
    let mut process = guest.exec(Exec { tty: Some((80, 24)), ..script_with_input(text) }).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    assert_eq!(read_until(&mut process, b"24 80\r\n").await, b"24 80\r\n");
    process.control().resize(132, 43).await.unwrap();
    stdin.write(b"go\n").await.unwrap();
    let ran = finish(process).await.unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert_eq!(said, "go\r\n43 132\r\nxterm-256color\r\n/dev/pts/0\r\n");

    let text = "trap 'echo interrupted; exit 9' INT; echo ready; while :; do read -r line; done";
    let mut process = guest.exec(Exec { tty: Some((80, 24)), ..script_with_input(text) }).await.unwrap();
    let mut stdin = process.take_stdin().unwrap();
    read_until(&mut process, b"ready\r\n").await;
    stdin.write(b"\x03").await.unwrap();
    let ran = finish(process).await.unwrap();
    assert!(ran.stdout.ends_with(b"interrupted\r\n"));
    assert_eq!(ran.exit.status, ExitStatus::Code(9));

    // End of input works on a terminal too, and without input the command reads nothing.
    for input in [&b"x\n"[..], b"x", b""] {
        let cat = Exec { tty: Some((80, 24)), ..script_with_input("cat; echo over") };
        let mut process = guest.exec(cat).await.unwrap();
        process.take_stdin().unwrap().write(input).await.unwrap();
        let ran = finish(process).await.unwrap();
        assert!(ran.stdout.ends_with(b"over\r\n"), "{:?}", String::from_utf8_lossy(&ran.stdout));
    }
    let ran = run(guest, Exec { tty: Some((80, 24)), ..script("cat; echo over") }).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "over\r\n");
}

#[tokio::test]
async fn signals_reach_the_command_and_its_exit_status_is_reported() {
    let machine = TestMachine::start().await;
    let guest = machine.guest();
    let text = "trap 'echo caught; exit 3' USR1; echo ready; while :; do sleep 100 & wait; done";
    let mut process = guest.exec(script(text)).await.unwrap();
    read_until(&mut process, b"ready\n").await;
    process.control().signal(10).await.unwrap();
    let ran = finish(process).await.unwrap();
    assert_eq!((ran.stdout.as_slice(), ran.exit.status), (&b"caught\n"[..], ExitStatus::Code(3)));
    assert!(!ran.exit.cancelled && !ran.exit.timed_out);

    let ran = run(guest, script("kill -SEGV $$")).await.unwrap();
    assert_eq!(ran.exit.status, ExitStatus::Signal(11));
    let ran = run(guest, script("exit 255")).await.unwrap();
    assert_eq!(ran.exit.status, ExitStatus::Code(255));

    let ran = run(guest, script("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; cat /bin/* > /dev/null"))
        .await
        .unwrap();
    let usage = ran.exit.usage;
    assert!(usage.user_us > 0 && usage.system_us > 0 && usage.max_rss_kib > 100, "{usage:?}");
    assert!(usage.wall_us >= usage.user_us.max(usage.system_us), "{usage:?}");
}
