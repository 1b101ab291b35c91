//! Commands: input, output and exit status.

use std::os::unix::fs::PermissionsExt;

use crate::host::{Host, shell};
use agentiso_proto::{Channel, Control, ErrorKind, Exec, ExitStatus, Request, Response, User};

fn words(words: &[&[u8]]) -> Exec {
    Exec { argv: words.iter().map(|word| word.to_vec()).collect(), ..Exec::default() }
}

#[test]
fn stdout_and_stderr_are_separate_and_the_exit_code_comes_last() {
    let heard = Host::start().exec(shell("echo out; echo err >&2; exit 7"));
    assert_eq!((heard.stdout.as_slice(), heard.stderr.as_slice()), (&b"out\n"[..], &b"err\n"[..]));
    assert!(matches!(heard.responses.as_slice(), [Response::Started { pid }] if *pid > 0));
    assert_eq!(heard.eofs, [Channel::Stdout, Channel::Stderr]);
    heard.assert_code(7);
    let exit = heard.exit();
    assert!(!exit.timed_out && !exit.cancelled && exit.usage.wall_us > 0 && exit.usage.max_rss_kib > 0);
}

#[test]
fn a_hundred_megabytes_of_output_on_both_channels_arrive_complete() {
    let half = 50 * 1024 * 1024;
    let script = format!("head -c {half} /dev/zero & head -c {half} /dev/zero >&2; wait");
    let heard = Host::start().exec(shell(&script));
    heard.assert_code(0);
    assert_eq!((heard.stdout.len(), heard.stderr.len()), (half, half));
}

#[test]
fn input_larger_than_every_buffer_is_echoed_unchanged() {
    let input: Vec<u8> = (0..5_000_000_u32).map(|number| (number % 251) as u8).collect();
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(Exec { stdin: true, ..words(&[b"cat"]) }));
    host.send(stream, &input);
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert!(heard.stdout == input);
}

#[test]
fn a_command_may_close_its_input_early() {
    let mut host = Host::start();
    let exec = Exec { stdin: true, ..shell("exec 0<&-; echo closed; read go < $FIFO; echo done") };
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    host.exec(words(&[b"mkfifo", fifo.as_os_str().as_encoded_bytes()])).assert_code(0);
    let env = vec![(b"FIFO".to_vec(), fifo.as_os_str().as_encoded_bytes().to_vec())];
    let stream = host.open(&Request::Exec(Exec { env, ..exec }));
    host.wait_until(stream, |heard| heard.stdout == b"closed\n");
    // Far more than a pipe and the window hold, so it can only be sent if the agent reads and discards it.
    host.send(stream, &vec![b'x'; 4 * 1024 * 1024]);
    std::fs::write(&fifo, "go\n").unwrap();
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert_eq!(heard.stdout, b"closed\ndone\n");
}

#[test]
fn without_input_a_command_reads_end_of_file() {
    let heard = Host::start().exec(words(&[b"cat"]));
    heard.assert_code(0);
    assert_eq!(heard.stdout, b"");
}

#[test]
fn a_command_killed_by_a_signal_reports_the_signal() {
    let heard = Host::start().exec(shell("kill -9 $$"));
    assert_eq!(heard.exit().status, ExitStatus::Signal(9));
}

#[test]
fn a_signal_from_the_host_reaches_the_whole_process_group() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(shell(
        "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 1; done",
    )));
    host.wait_until(stream, |heard| heard.stdout == b"ready\n");
    host.control(stream, Control::Signal(15));
    let heard = host.finish(stream);
    heard.assert_code(3);
    assert_eq!(heard.stdout, b"ready\ncaught\n");
}

#[test]
fn a_missing_program_and_one_that_is_not_executable_are_different_errors() {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).unwrap();
    let plain = plain.as_os_str().as_encoded_bytes();
    let mut host = Host::start();
    assert_eq!(host.exec(words(&[b"no-such-program-anywhere"])).error(), ErrorKind::NotFound);
    assert_eq!(host.exec(words(&[b"/no/such/program"])).error(), ErrorKind::NotFound);
    assert_eq!(host.exec(words(&[plain])).error(), ErrorKind::Denied);
    assert_eq!(host.exec(words(&[b"/etc"])).error(), ErrorKind::Denied);
    assert_eq!(host.exec(words(&[])).error(), ErrorKind::Invalid);
    let elsewhere = Exec { workdir: Some(b"/no/such/directory".to_vec()), ..words(&[b"true"]) };
    assert_eq!(host.exec(elsewhere).error(), ErrorKind::NotFound);
    let nobody = Exec { user: Some(User::Name("no-such-user".into())), ..words(&[b"true"]) };
    assert_eq!(host.exec(nobody).error(), ErrorKind::NotFound);
    host.exec(words(&[b"true"])).assert_code(0);
}

#[test]
fn a_script_without_an_interpreter_line_is_run_by_the_shell() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "echo \"$0 $1\"\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let heard = Host::start().exec(words(&[script.as_os_str().as_encoded_bytes(), b"argument"]));
    heard.assert_code(0);
    assert_eq!(heard.stdout, format!("{} argument\n", script.display()).as_bytes());
}

#[test]
fn arguments_and_variables_are_bytes_not_text() {
    let odd = b"\xff\xfe a\tb";
    let mut host = Host::start();
    let heard = host.exec(words(&[b"printf", b"%s", odd]));
    assert_eq!(heard.stdout, odd);
    let env = vec![(b"ODD".to_vec(), odd.to_vec())];
    let heard = host.exec(Exec { env, ..shell("printf %s \"$ODD\"") });
    assert_eq!(heard.stdout, odd);
}

#[test]
fn the_environment_has_the_usual_variables_and_none_of_the_agents() {
    let heard = Host::start().exec(words(&[b"env"]));
    let text = String::from_utf8(heard.stdout).unwrap();
    let mut names: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["AGENTISO_EXEC", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"]);
}

#[test]
fn a_command_starts_in_its_working_directory_with_the_usual_umask_and_no_extra_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let workdir = Some(path.as_os_str().as_encoded_bytes().to_vec());
    let heard = Host::start().exec(Exec { workdir, ..shell("pwd; umask; ls /proc/$$/fd; :") });
    assert_eq!(String::from_utf8(heard.stdout).unwrap(), format!("{}\n0022\n0\n1\n2\n", path.display()));
}

#[test]
fn a_command_starts_with_no_signal_blocked_and_broken_pipes_not_ignored() {
    let heard = Host::start().exec(words(&[b"cat", b"/proc/self/status"]));
    let status = String::from_utf8(heard.stdout).unwrap();
    let set = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    assert_eq!(set("SigBlk:"), 0);
    assert_eq!(set("SigIgn:") & (1 << (13 - 1)), 0);
}

#[test]
fn a_command_runs_as_the_given_uid() {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let heard = Host::start().exec(Exec { user: Some(User::Id { uid, gid }), ..shell("id -u; id -g") });
    assert_eq!(String::from_utf8(heard.stdout).unwrap(), format!("{uid}\n{gid}\n"));
}

#[test]
fn only_root_can_run_commands_as_another_user() {
    let exec = Exec {
        user: Some(User::Id { uid: 54_321, gid: 54_322 }),
        ..shell("id -u; id -g; id -G; echo x > /dev/stdout")
    };
    let heard = Host::start().exec(exec);
    if rustix::process::geteuid().is_root() {
        heard.assert_code(0);
        assert_eq!(heard.stdout, b"54321\n54322\n54322\nx\n");
    } else {
        assert_eq!(heard.error(), ErrorKind::Denied);
    }
}

#[test]
fn sigpipe_ends_commands_as_usual() {
    let heard = Host::start().exec(shell("yes | head -n 1"));
    heard.assert_code(0);
    assert_eq!((heard.stdout.as_slice(), heard.stderr.as_slice()), (&b"y\n"[..], &b""[..]));
}

#[test]
fn a_command_has_a_terminal_and_sees_its_size_change() {
    let mut host = Host::start();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; read line; stty size; echo \"$TERM\"; exit 5";
    let stream = host.open(&Request::Exec(Exec { tty: Some((90, 30)), stdin: true, ..shell(script) }));
    host.wait_until(stream, |heard| heard.stdout.ends_with(b"30 90\r\n"));
    host.control(stream, Control::Resize { columns: 101, rows: 41 });
    host.send(stream, b"go\n");
    let heard = host.finish(stream);
    let text = String::from_utf8(heard.stdout.clone()).unwrap();
    assert_eq!(text, "terminal\r\n30 90\r\ngo\r\n41 101\r\nxterm-256color\r\n");
    assert_eq!(heard.stderr, b"");
    heard.assert_code(5);
}

#[test]
fn input_does_not_overtake_an_earlier_resize() {
    let mut host = Host::start();
    let script = "echo ready; while read line; do stty size; done";
    let stream = host.open(&Request::Exec(Exec { tty: Some((80, 24)), stdin: true, ..shell(script) }));
    host.wait_until(stream, |heard| heard.stdout == b"ready\r\n");
    let mut expected = "ready\r\n".to_owned();
    for columns in 100..200 {
        host.control(stream, Control::Resize { columns, rows: 40 });
        host.send(stream, b"\n");
        expected.push_str(&format!("\r\n40 {columns}\r\n"));
        host.wait_until(stream, |heard| heard.stdout.len() >= expected.len());
    }
    host.send(stream, b"\x04");
    assert_eq!(String::from_utf8(host.finish(stream).stdout).unwrap(), expected);
}

#[test]
fn an_interrupt_typed_or_sent_by_the_host_reaches_the_foreground_process() {
    let mut host = Host::start();
    for typed in [true, false] {
        let exec = Exec {
            tty: Some((80, 24)),
            stdin: true,
            ..shell("trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 1; done")
        };
        let stream = host.open(&Request::Exec(exec));
        host.wait_until(stream, |heard| heard.stdout == b"ready\r\n");
        if typed {
            host.send(stream, b"\x03");
        } else {
            host.control(stream, Control::Signal(2));
        }
        let heard = host.finish(stream);
        heard.assert_code(4);
        assert!(heard.stdout.ends_with(b"caught\r\n"));
    }
}

#[test]
fn end_of_input_ends_a_reader_at_a_terminal() {
    let mut host = Host::start();
    let stream = host.open(&Request::Exec(Exec {
        tty: Some((80, 24)),
        stdin: true,
        ..shell("stty -echo; echo ready; cat; echo over")
    }));
    host.wait_until(stream, |heard| heard.stdout == b"ready\r\n");
    host.send(stream, b"line\n");
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert_eq!(heard.stdout, b"ready\r\nline\r\nover\r\n");
}

#[test]
fn end_of_input_at_a_terminal_works_in_mid_line_and_without_input() {
    let mut host = Host::start();
    let script = "stty -echo; echo ready; cat; echo over";
    let stream = host.open(&Request::Exec(Exec { tty: Some((80, 24)), stdin: true, ..shell(script) }));
    host.wait_until(stream, |heard| heard.stdout == b"ready\r\n");
    host.send(stream, b"half a line");
    host.send_eof(stream);
    assert_eq!(host.finish(stream).stdout, b"ready\r\nhalf a lineover\r\n");

    let heard = host.exec(Exec { tty: Some((80, 24)), ..shell("cat; echo over") });
    assert_eq!(heard.stdout, b"over\r\n");
}
