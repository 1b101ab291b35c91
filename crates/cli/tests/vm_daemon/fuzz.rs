//! Hostile text in every text parameter of every tool, on a real machine.
//!
//! Missing parameters and wrong types are in `hostile`; here everything has the right type.

use serde_json::{Map, Value, json};

use crate::http::Http;
use crate::mcp::Mcp;
use crate::place::Place;
use crate::schema::{kinds, required, sample};

/// Number of calls per tool.
const ROUNDS: usize = 12;

/// Tools that would end, rename or suspend the machine that the other calls use.
const ENDS: &[&str] = &["workspace_destroy", "workspace_stop", "workspace_suspend", "workspace_rename"];

/// A generator with a fixed seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % count as u64).unwrap()
    }

    /// Text that has broken other programs. It never names a workspace, and is harmless as a command.
    fn hostile(&mut self) -> String {
        let words = [
            "",
            " ",
            "\n",
            "a\nb",
            "a\0b",
            "\0",
            "'",
            "\"",
            "`",
            "\\",
            "'\"'\"",
            "$(id)",
            "`id`",
            "; id #",
            "| cat",
            "&& id",
            "${IFS}",
            "%s%n%x",
            "../../../root/x",
            "/root/../../../x",
            "/proc/self/root/x",
            "//",
            "-rf",
            "--help",
            "--upload-pack=id",
            "ext::sh -c id",
            "file:///etc/passwd",
            "http://user:word@127.0.0.1:1/x",
            "~",
            "*",
            "\u{202e}gnp.exe",
            "\u{feff}x",
            "e\u{301}\u{301}",
            "🦀",
            "{\"a\":1}",
            "[[[[",
            "<!--",
            "\u{1b}[2J",
            "\r\n\r\n",
            "'; DROP TABLE workspaces; --",
            "A=B",
            "=",
            "refs/heads/../x",
            "(((((((((a*)*)*)*)*)*)*)*)*",
        ];
        match self.below(8) {
            0 => "x".repeat(1 << (8 + self.below(10))),
            1 => "../".repeat(1 + self.below(2000)),
            2 => "\u{202e}\n'\"".repeat(1 + self.below(200)),
            _ => words[self.below(words.len())].to_owned(),
        }
    }

    /// A value of the right type that contains such text; `None` if the parameter takes no text.
    fn fitting(&mut self, property: &Value) -> Option<Value> {
        let kinds = kinds(property);
        let takes = |kind: &str| kinds.iter().any(|one| one == kind);
        match () {
            () if takes("string") => Some(json!(self.hostile())),
            () if takes("object") => Some(json!({self.hostile(): self.hostile(), "X": self.hostile()})),
            () if takes("array") && property["items"]["type"] == "object" => {
                let parts = property["items"]["properties"].as_object().into_iter().flatten();
                let item: Map<_, _> =
                    parts.filter_map(|(name, part)| Some((name.clone(), self.fitting(part)?))).collect();
                Some(json!([item]))
            }
            () if takes("array") => Some(json!([self.hostile(), self.hostile()])),
            () => None,
        }
    }

    /// Required arguments, with hostile text in a few places.
    fn arguments(&mut self, tool: &str, schema: &Value) -> Value {
        let properties = schema["properties"].as_object().unwrap();
        let mut arguments: Map<String, Value> = required(schema)
            .iter()
            .map(|name| ((*name).to_owned(), sample(&properties[*name], "target")))
            .collect();
        for _ in 0..1 + self.below(3) {
            let Some((name, property)) = properties.iter().nth(self.below(properties.len().max(1))) else {
                break;
            };
            if let Some(word) = property["enum"].as_array().filter(|_| self.below(4) > 0) {
                arguments.insert(name.clone(), word[self.below(word.len())].clone());
            } else if let Some(value) = self.fitting(property) {
                arguments.insert(name.clone(), value);
            }
        }
        if properties.contains_key("path") {
            // A small tree, because a larger one would take long to read.
            arguments.entry("path").or_insert(json!("/etc"));
        }
        if properties.contains_key("workspace_id") {
            let id = match self.below(6) {
                0 => "other".to_owned(),
                1 => "01a1e298-8baa-751b-9e02-4f0b168fd871".to_owned(),
                2 => self.hostile(),
                _ if ENDS.contains(&tool) => "other".to_owned(),
                _ => "target".to_owned(),
            };
            arguments.insert("workspace_id".to_owned(), json!(id));
        }
        Value::Object(arguments)
    }
}

/// All workspaces with their owner and state.
fn workspaces(listed: &Value) -> Vec<[Value; 4]> {
    let workspaces = listed["workspaces"].as_array().unwrap().iter();
    workspaces.map(|one| ["workspace_id", "name", "state", "owned"].map(|key| one[key].clone())).collect()
}

#[test]
fn hostile_text_in_any_parameter_is_accepted_or_rejected_without_harm() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let other = place.session("other");
    let mut mcp = place.mcp(&["--tools", "full"]);
    mcp.create("target");
    other.act("workspace_create", json!({"name": "other"}));
    other.sh("other", "echo secret > /root/x");
    let (daemon, machines) = (place.daemon(), place.machines().len());
    let seen = |mcp: &mut Mcp, other: &Http| {
        let all = [mcp.call("workspace_list", json!({})), other.act("workspace_list", json!({}))];
        all.map(|listed| workspaces(&listed))
    };
    let before = seen(&mut mcp, &other);

    let tools = mcp.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let mut dice = Dice(0x5eed_0fa9_e471_50aa);
    let (mut done, mut refused) = (0, 0);
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        for _ in 0..ROUNDS {
            let arguments = dice.arguments(name, &tool["inputSchema"]);
            let shown: String = arguments.to_string().chars().take(400).collect();
            let result = mcp.result(name, arguments.clone());
            if result["isError"] == true {
                let error = &result["structuredContent"]["error"];
                let (code, message) = (error["code"].as_str().unwrap(), error["message"].as_str().unwrap());
                assert!(!["", "internal"].contains(&code), "{name} {shown}: {error}");
                assert!(
                    !message.is_empty() && message.len() < 4000,
                    "{name} {shown}: {} bytes",
                    message.len()
                );
                refused += 1;
            } else {
                assert_ne!(arguments["workspace_id"], "other", "{name} {shown} affected another workspace");
                undo(&mut mcp, name, &result["structuredContent"]);
                done += 1;
            }
        }
    }
    assert!(done > 100 && refused > 100, "{done} done, {refused} refused");
    assert_eq!(seen(&mut mcp, &other), before);
    assert_eq!((place.daemon(), place.machines().len()), (daemon, machines));
    assert_eq!(
        (mcp.sh("target", "echo well"), other.sh("other", "cat /root/x")),
        ("well".into(), "secret".into())
    );
}

/// Destroys what a call has created.
fn undo(mcp: &mut Mcp, tool: &str, outcome: &Value) {
    let made: Vec<Value> = match tool {
        "workspace_create" => vec![outcome["workspace_id"].clone()],
        "workspace_fork" | "workspace_batch_fork" => outcome["workers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|worker| worker["workspace_id"].clone())
            .collect(),
        _ => Vec::new(),
    };
    for id in made {
        mcp.call("workspace_destroy", json!({"workspace_id": id}));
    }
}
