//! An echo server in a workspace, and connections to it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use crate::http::Http;
use crate::place::PATIENCE;

/// The port it listens on.
pub const PORT: u16 = 7000;
/// Forks a process per connection, so that a slow one does not block others. At end of input it sends `bye` and closes.
const SERVER: &str = r#"exec perl -MIO::Socket::INET -e '
$SIG{CHLD} = "IGNORE"; $| = 1;
$l = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 7000, Listen => 99, ReuseAddr => 1) or die;
print "ready\n";
while ($c = $l->accept) {
  if (fork) { close $c; next }
  close $l;
  while (sysread $c, $b, 65536) { while (length $b) { $n = syswrite($c, $b) or exit; substr($b, 0, $n) = "" } }
  syswrite $c, "bye\n";
  exit;
}'"#;

/// Starts the server as a job.
pub fn serve(http: &Http, workspace: &str) {
    let job = http.act("exec_start", json!({"workspace_id": workspace, "command": SERVER}));
    let ready =
        json!({"workspace_id": workspace, "job_id": job["job_id"], "wait": "output", "wait_secs": 300});
    assert_eq!(http.act("exec_poll", ready)["stdout"], "ready\n");
}

/// Forwards a port to the server.
pub fn forward(http: &Http, workspace: &str) -> u16 {
    port_of(&http.act("port_forward_add", json!({"workspace_id": workspace, "guest_port": PORT})))
}

/// The host port.
pub fn port_of(forward: &Value) -> u16 {
    u16::try_from(forward["host_port"].as_u64().expect("a port")).expect("a port")
}

/// Connects to a host port.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    stream
}

/// The complete response to some words.
pub fn echo(port: u16, words: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(words.as_bytes()).expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("a way to end");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.strip_suffix("bye\n").unwrap_or_else(|| panic!("cut short: {answer:?}")).to_owned()
}
