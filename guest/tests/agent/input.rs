//! Reports of how much of its input a command has read.

use agentiso_proto::{Control, Exec, Request, Response};

use crate::host::{Heard, Host, shell};

/// Starts a command whose input is counted.
fn counted(host: &mut Host, script: &str) -> u32 {
    let stream = host.open(&Request::Exec(Exec { stdin: true, ..shell(script) }));
    host.control(stream, Control::ReportInput);
    stream
}

/// The reported counts, in order.
fn reports(heard: &Heard) -> Vec<u64> {
    let read = |response: &Response| match response {
        Response::InputRead { bytes } => Some(*bytes),
        _ => None,
    };
    heard.responses.iter().filter_map(read).collect()
}

#[test]
fn a_command_that_reads_nothing_reports_no_input_read() {
    let mut host = Host::start();
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let stream = counted(&mut host, &format!("read go < {}", gate.display()));
    host.send(stream, b"one\ntwo\n");
    host.send_eof(stream);
    // The response means that the input has arrived.
    host.ping(b"there");
    std::fs::write(&gate, "go\n").unwrap();
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert_eq!(reports(&heard), [0]);
}

#[test]
fn a_command_that_reads_one_line_reports_that_line() {
    let mut host = Host::start();
    // The shell reads a pipe byte by byte.
    let stream = counted(&mut host, "read line; echo $line");
    host.send(stream, b"one\ntwo\n");
    let heard = host.finish(stream);
    assert_eq!(heard.stdout, b"one\n");
    assert_eq!(reports(&heard), [4]);
}

#[test]
fn the_first_read_is_reported_while_the_command_runs() {
    let mut host = Host::start();
    let stream = counted(&mut host, "read line; read more; read last; echo $line $more");
    host.send(stream, b"one\n");
    host.wait_until(stream, |heard| reports(heard) == [4]);
    host.send(stream, b"two\n");
    host.send_eof(stream);
    let heard = host.finish(stream);
    assert_eq!(heard.stdout, b"one two\n");
    assert_eq!(reports(&heard), [4, 8]);
}

#[test]
fn all_of_a_long_input_is_read_and_counted() {
    let mut host = Host::start();
    let input: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let stream = counted(&mut host, "cat");
    host.send(stream, &input);
    host.send_eof(stream);
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert!(heard.stdout == input);
    assert_eq!(reports(&heard), [4096, 1_000_000]);
}

#[test]
fn input_left_in_the_pipe_at_exit_is_counted_as_unread() {
    let mut host = Host::start();
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let stream = counted(&mut host, &format!("read line; read go < {}; read next", gate.display()));
    host.send(stream, b"one\n");
    host.wait_until(stream, |heard| reports(heard) == [4]);
    host.send(stream, b"two\nthree\n");
    host.send_eof(stream);
    host.ping(b"there");
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(reports(&host.finish(stream)), [4, 8]);
}

#[test]
fn input_after_the_command_closes_its_end_is_unread_and_discarded() {
    let mut host = Host::start();
    let directory = tempfile::tempdir().unwrap();
    let gate = directory.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let stream = counted(&mut host, &format!("exec 0<&-; echo closed; read go < {}", gate.display()));
    host.wait_until(stream, |heard| heard.stdout == b"closed\n");
    // Far more than a pipe and the window hold.
    host.send(stream, &vec![b'x'; 4 * 1024 * 1024]);
    std::fs::write(&gate, "go\n").unwrap();
    let heard = host.finish(stream);
    heard.assert_code(0);
    assert_eq!(reports(&heard), [0]);
}

#[test]
fn a_terminal_and_a_command_without_input_report_nothing() {
    let mut host = Host::start();
    let terminal = Exec { stdin: true, tty: Some((80, 24)), ..shell("read line") };
    for exec in [terminal, shell("read line")] {
        let stream = host.open(&Request::Exec(exec));
        host.control(stream, Control::ReportInput);
        host.send(stream, b"one\n");
        assert_eq!(reports(&host.finish(stream)), []);
    }
}
