//! A minimal HTTP client.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use axum::http::HeaderName;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::WebSocket;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::place::PATIENCE;
use crate::refusal::Refusal;

/// The address of the server.
#[derive(Clone)]
enum Address {
    Socket(PathBuf),
    Port(u16),
}

/// A client of the daemon.
#[derive(Clone)]
pub struct Http {
    address: Address,
    headers: Vec<(String, String)>,
}

/// A response.
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers, in lower case.
    pub head: String,
    /// The decoded body.
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    /// Asserts a failure with this status and code.
    pub fn is_refusal(&self, status: u16, code: &str) -> Refusal {
        assert_eq!(self.status, status, "{}", self.body);
        let refusal = Refusal::of(&self.json());
        refusal.is(code, &[]);
        refusal
    }
}

impl Http {
    /// The user, over the socket in a directory.
    pub fn at_socket(run_dir: &Path) -> Self {
        Self { address: Address::Socket(run_dir.to_owned()), headers: vec![header("host", "localhost")] }
    }

    /// A client of a TCP port.
    pub fn at_port(port: u16) -> Self {
        Self { address: Address::Port(port), headers: vec![header("host", &format!("127.0.0.1:{port}"))] }
    }

    /// Adds or replaces a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push(header(name, value));
        self
    }

    /// Creates a session and uses it.
    pub fn begin_session(&self, name: &str) -> Self {
        let begun = self.request("POST", "/v1/sessions", Some(&json!({"client": name})));
        assert_eq!(begun.status, 200, "{}", begun.body);
        let token = begun.json()["token"].as_str().expect("a token").to_owned();
        self.clone().with("authorization", &format!("Bearer {token}"))
    }

    /// Its bearer token.
    pub fn token(&self) -> &str {
        let value = self.headers.iter().find(|(name, _)| name == "authorization");
        value.and_then(|(_, value)| value.strip_prefix("Bearer ")).expect("a token")
    }

    /// Sends a request and waits for the complete response.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.send(method, path, &body.map(Value::to_string).unwrap_or_default())
    }

    /// The same with any body.
    pub fn send(&self, method: &str, path: &str, body: &str) -> Reply {
        let mut answer = Vec::new();
        self.open(method, path, body).read_to_end(&mut answer).expect("an answer");
        let answer = String::from_utf8(answer).expect("text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer:?}"));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
        let head = head.to_lowercase();
        let body =
            if head.contains("transfer-encoding: chunked") { unchunked(body) } else { body.to_owned() };
        Reply { status, head, body }
    }

    /// Sends a request and reads events as they arrive.
    pub fn events(&self, method: &str, path: &str, body: Option<&Value>) -> Events {
        self.clone().with("accept", "text/event-stream").stream(method, path, body)
    }

    /// The same with the client's own `Accept` header.
    pub fn stream(&self, method: &str, path: &str, body: Option<&Value>) -> Events {
        let body = body.map(Value::to_string).unwrap_or_default();
        Events { lines: BufReader::new(self.open(method, path, &body)) }
    }

    /// The outcome of an action that must succeed.
    pub fn act(&self, action: &str, arguments: Value) -> Value {
        let reply = self.request("POST", &format!("/v1/actions/{action}"), Some(&arguments));
        assert_eq!(reply.status, 200, "{action}: {}", reply.body);
        reply.json()
    }

    /// The error of an action that must fail.
    pub fn refused(&self, action: &str, arguments: Value) -> Refusal {
        let reply = self.request("POST", &format!("/v1/actions/{action}"), Some(&arguments));
        assert_ne!(reply.status, 200, "{action} succeeded: {}", reply.body);
        Refusal::of(&reply.json())
    }

    /// The output of a script that must succeed, without the final newline.
    pub fn sh(&self, workspace: &str, script: &str) -> String {
        let ran = self.act("exec", json!({"workspace_id": workspace, "command": script}));
        assert_eq!(ran["exit_code"], 0, "{script}: {ran}");
        ran["stdout"].as_str().expect("text").trim_end().to_owned()
    }

    /// The names of all workspaces.
    pub fn names(&self) -> Vec<String> {
        let listed = self.act("workspace_list", json!({}));
        let workspaces = listed["workspaces"].as_array().expect("a list");
        workspaces.iter().map(|one| one["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Opens a WebSocket.
    pub fn web_socket(&self, path: &str) -> WebSocket<Connection> {
        let mut request = format!("ws://localhost{path}").into_client_request().expect("a request");
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            request.headers_mut().insert(name, value.parse().expect("a value"));
        }
        let opened = tokio_tungstenite::tungstenite::client(request, Connection::to(&self.address));
        opened.unwrap_or_else(|error| panic!("{path}: {error}")).0
    }

    fn open(&self, method: &str, path: &str, body: &str) -> Connection {
        let mut connection = Connection::to(&self.address);
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str("content-type: application/json\r\n");
        }
        head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        connection.write_all(head.as_bytes()).expect("the server reads");
        connection
    }
}

/// A stream of events.
pub struct Events {
    lines: BufReader<Connection>,
}

impl Events {
    /// The next event: its name and its data.
    pub fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("events") == 0 {
                return None;
            }
            // Other lines are chunk sizes, blank lines and headers.
            if let Some(word) = line.strip_prefix("event: ") {
                word.trim_end().clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data.trim_end()).expect("JSON")));
            }
        }
    }

    /// Waits for the headers of the response.
    pub fn wait_for_head(&mut self) {
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert_ne!(self.lines.read_line(&mut line).expect("a head"), 0, "no head");
        }
    }

    /// Waits for an event of this name.
    pub fn wait_for(&mut self, name: &str) -> Value {
        loop {
            let (found, data) = self.next().unwrap_or_else(|| panic!("no event {name}"));
            if found == name {
                return data;
            }
        }
    }
}

/// A connection over either transport.
pub enum Connection {
    Socket(UnixStream),
    Port(TcpStream),
}

impl Connection {
    fn to(address: &Address) -> Self {
        match address {
            Address::Socket(run_dir) => {
                // A path through the open directory is never too long for the kernel.
                let dir = File::open(run_dir).expect("the daemon's directory");
                let path = format!("/proc/self/fd/{}/daemon.sock", dir.as_raw_fd());
                let stream = UnixStream::connect(path).expect("the daemon listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                Self::Socket(stream)
            }
            Address::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port)).expect("somebody listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                Self::Port(stream)
            }
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.read(buffer),
            Self::Port(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Socket(stream) => stream.write(bytes),
            Self::Port(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = match self {
            Self::Socket(stream) => stream.shutdown(Shutdown::Both),
            Self::Port(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Decodes a chunked body.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        whole.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    whole
}
