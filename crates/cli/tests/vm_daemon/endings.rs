//! Ending `agentiso serve` with a signal.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::{Place, until};

/// Much longer than ending a session takes, and shorter than other commands may take to clean up after an interrupt.
const SOON: Duration = Duration::from_secs(20);

/// A server whose client talks to it through a socket, like clients on Node.
struct OverSocket {
    server: Child,
    socket: UnixStream,
}

impl OverSocket {
    fn begin(place: &Place) -> Self {
        let (socket, far) = UnixStream::pair().unwrap();
        let end = || Stdio::from(OwnedFd::from(far.try_clone().unwrap()));
        let server = place.command(&["serve"]).stdin(end()).stdout(end()).stderr(Stdio::null()).spawn();
        Self { server: server.expect("agentiso runs"), socket }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        writeln!(self.socket, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(&self.socket).read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"]["structuredContent"].clone()
    }

    /// Sends a signal and waits for the server to exit. The connection stays open.
    fn signal(mut self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.server.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let began = Instant::now();
        let mut ended = None;
        until(|| {
            ended = self.server.try_wait().unwrap();
            ended.is_some()
        });
        assert!(ended.unwrap().success(), "{name}: {ended:?}");
        assert!(began.elapsed() < SOON, "{name}: it waited for its standard input");
    }
}

#[test]
fn a_signal_ends_the_server_and_its_session_while_its_client_is_connected() {
    let place = Place::new();
    let mut server = OverSocket::begin(&place);
    server.call("workspace_create", json!({"name": "web"}));
    for name in ["TERM", "INT", "HUP"] {
        server.signal(name);
        server = OverSocket::begin(&place);
        let listed = server.call("workspace_list", json!({}));
        assert_eq!(listed["workspaces"][0]["owned"], false, "{name}: {listed}");
        // It has no owner, so its next user becomes the owner.
        let ran = server.call("exec", json!({"workspace_id": "web", "command": "hostname"}));
        assert_eq!(ran["stdout"], "web\n", "{name}: {ran}");
    }
    server.signal("TERM");
}
