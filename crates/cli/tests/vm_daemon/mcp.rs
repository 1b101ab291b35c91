//! An MCP client of a child process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::place::PATIENCE;
use crate::refusal::Refusal;

/// A client of `agentiso serve`.
pub struct Mcp {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: i64,
    /// Notifications of the server.
    pub notes: Vec<Value>,
}

impl Mcp {
    /// Starts a server and performs the handshake.
    pub fn begin(command: Command) -> Self {
        let mut mcp = Self::silent(command);
        let client = json!({"name": "tests", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = mcp.request("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "agentiso", "{answer}");
        mcp.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        mcp
    }

    /// Starts a server without a handshake.
    pub fn silent(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("agentiso runs");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, lines, asked: 0, notes: Vec::new() }
    }

    /// Writes a line with any content.
    pub fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        writeln!(stdin, "{line}").expect("the server reads");
    }

    /// The next line of the server; `None` if it has exited.
    pub fn line(&self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the server does not respond"),
        }
    }

    /// Sends a request without waiting for its response.
    pub fn send(&mut self, method: &str, params: Value) -> i64 {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Waits for the response to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        loop {
            let line = self.line().expect("an answer");
            if line["id"] == id {
                return line;
            }
            self.notes.push(line);
        }
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// The result of a tool, successful or not.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert!(result["content"][0]["text"].is_string(), "{tool}: {answer}");
        result.clone()
    }

    /// The outcome of a call that must succeed.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// The error of a call that must fail.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Refusal {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{tool} succeeded: {result}");
        Refusal::of(&result["structuredContent"])
    }

    /// Creates a workspace of the smallest usual size and returns its id.
    pub fn create(&mut self, name: &str) -> String {
        let made = self.call("workspace_create", json!({"name": name}));
        made["workspace_id"].as_str().expect("an id").to_owned()
    }

    /// The output of a script that must succeed, without the final newline.
    pub fn sh(&mut self, workspace: &str, script: &str) -> String {
        let ran = self.call("exec", json!({"workspace_id": workspace, "command": script}));
        assert_eq!(ran["exit_code"], 0, "{script}: {ran}");
        ran["stdout"].as_str().expect("text").trim_end().to_owned()
    }

    /// Kills the server without a goodbye, as if the client had been killed.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Closes the connection and waits until the server has exited.
    pub fn end(mut self) {
        self.stdin = None;
        while self.line().is_some() {}
        assert!(self.child.wait().expect("an end").success());
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        self.kill();
    }
}
