//! A client that speaks MCP with a child process.

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
    /// What the server said unasked.
    pub notes: Vec<Value>,
}

impl Mcp {
    /// Starts a server and shakes hands.
    pub fn begin(command: Command) -> Self {
        let mut mcp = Self::silent(command);
        let client = json!({"name": "tests", "version": "1"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let answer = mcp.request("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "agentiso", "{answer}");
        mcp.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        mcp
    }

    /// Starts a server and says nothing yet.
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

    /// Writes a line, whatever is in it.
    pub fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("standard input is open");
        writeln!(stdin, "{line}").expect("the server reads");
    }

    /// The next line of the server's; none if it has ended.
    pub fn line(&self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"))),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("the server says nothing"),
        }
    }

    /// Sends a request and does not wait for its answer.
    pub fn send(&mut self, method: &str, params: Value) -> i64 {
        self.asked += 1;
        let id = self.asked;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        loop {
            let line = self.line().expect("an answer");
            if line["id"] == id {
                return line;
            }
            self.notes.push(line);
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// What a tool answers, whether it succeeds or not.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = &answer["result"];
        assert!(result["content"][0]["text"].is_string(), "{tool}: {answer}");
        result.clone()
    }

    /// What comes of a call that must succeed.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let result = self.result(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Why a call fails that must.
    pub fn refused(&mut self, tool: &str, arguments: Value) -> Refusal {
        let result = self.result(tool, arguments);
        assert_eq!(result["isError"], true, "{tool} succeeded: {result}");
        Refusal::of(&result["structuredContent"])
    }

    /// Makes a workspace of the smallest usual size and says its id.
    pub fn create(&mut self, name: &str) -> String {
        let made = self.call("workspace_create", json!({"name": name}));
        made["workspace_id"].as_str().expect("an id").to_owned()
    }

    /// What a script prints that must succeed, without the last line end.
    pub fn sh(&mut self, workspace: &str, script: &str) -> String {
        let ran = self.call("exec", json!({"workspace_id": workspace, "command": script}));
        assert_eq!(ran["exit_code"], 0, "{script}: {ran}");
        ran["stdout"].as_str().expect("text").trim_end().to_owned()
    }

    /// Goes away without a word, as a client does that is killed.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Says goodbye and waits until the server has ended.
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
