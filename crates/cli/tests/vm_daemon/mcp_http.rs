//! An MCP client over HTTP.

use serde_json::{Value, json};

use crate::http::{Events, Http, Reply};
use crate::refusal::Refusal;

const PATH: &str = "/mcp";
const NEWEST: &str = "2026-07-28";

/// A client of the daemon's `/mcp`.
pub struct McpHttp {
    http: Http,
    /// Metadata that a client of the newest revision sends with every request. A client of an older revision has a
    /// session.
    about: Option<Value>,
    asked: i64,
    /// Notifications before the last response.
    pub notes: Vec<Value>,
}

impl McpHttp {
    /// A client of an older revision, with a handshake and a session.
    pub fn begin(http: &Http) -> Self {
        let http = http.clone().with("accept", "application/json, text/event-stream");
        let mut client = Self { http, about: None, asked: 0, notes: Vec::new() };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}
        });
        let reply = client.post("initialize", hello);
        assert_eq!(reply.status, 200, "{}", reply.body);
        let session = reply.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        client.http = client.http.with("mcp-session-id", session.expect("a session").trim_end());
        let answer = client.answer_in(&reply);
        assert_eq!(answer["result"]["serverInfo"]["name"], "agentiso", "{answer}");
        client.notify("notifications/initialized", json!({}));
        client
    }

    /// A client of the newest revision, with these capabilities.
    pub fn newest(http: &Http, capabilities: Value) -> Self {
        let http = http.clone().with("accept", "application/json, text/event-stream");
        let about = json!({
            "io.modelcontextprotocol/protocolVersion": NEWEST,
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Self { http, about: Some(about), asked: 0, notes: Vec::new() }
    }

    /// The HTTP client, without the protocol session.
    pub fn http(&self) -> &Http {
        &self.http
    }

    /// Sends a request and waits for its response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let reply = self.post(method, params);
        self.answer_in(&reply)
    }

    /// Sends a request without waiting for its response. Returns its id and the response stream.
    pub fn send(&mut self, method: &str, params: Value) -> (i64, Events) {
        let (http, message) = self.prepared(method, params);
        (self.asked, http.stream("POST", PATH, Some(&message)))
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: Value) {
        let note = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let reply = self.http.request("POST", PATH, Some(&note));
        assert_eq!(reply.status, 202, "{method}: {}", reply.body);
    }

    /// The result of a tool, successful or not.
    pub fn result(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"]["content"][0]["text"].is_string(), "{tool}: {answer}");
        answer["result"].clone()
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

    /// The content of a resource.
    pub fn read(&mut self, uri: &str) -> Value {
        let answer = self.request("resources/read", json!({"uri": uri}));
        let contents = &answer["result"]["contents"];
        assert_eq!(
            (contents.as_array().map(Vec::len), &contents[0]["uri"]),
            (Some(1), &json!(uri)),
            "{answer}"
        );
        contents[0].clone()
    }

    fn post(&mut self, method: &str, params: Value) -> Reply {
        let (http, message) = self.prepared(method, params);
        http.request("POST", PATH, Some(&message))
    }

    /// A request with everything that its revision requires.
    fn prepared(&mut self, method: &str, mut params: Value) -> (Http, Value) {
        self.asked += 1;
        let mut http = self.http.clone();
        if let Some(about) = &self.about {
            http = http.with("mcp-protocol-version", NEWEST).with("mcp-method", method);
            if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()) {
                http = http.with("mcp-name", name);
            }
            for (key, value) in about.as_object().into_iter().flatten() {
                params["_meta"][key] = value.clone();
            }
        }
        (http, json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}))
    }

    /// The last message in a reply. Earlier messages are notifications.
    fn answer_in(&mut self, reply: &Reply) -> Value {
        let lines = reply.body.lines();
        let mut messages: Vec<Value> = if reply.head.contains("content-type: text/event-stream") {
            let events = lines.filter_map(|line| line.strip_prefix("data:").map(str::trim));
            let events = events.filter(|data| !data.is_empty());
            events.map(|data| serde_json::from_str(data).expect("JSON")).collect()
        } else {
            vec![reply.json()]
        };
        let answer = messages.pop().unwrap_or_else(|| panic!("no answer: {} {}", reply.head, reply.body));
        assert_eq!(answer["id"], self.asked, "{answer}");
        self.notes = messages;
        answer
    }
}
