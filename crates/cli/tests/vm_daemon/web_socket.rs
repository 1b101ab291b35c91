//! Commands over a WebSocket: input, output, and how they end.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use crate::http::{Connection, Http};
use crate::place::Place;
use crate::sleeper;

/// A command and its WebSocket.
struct Sitting {
    socket: WebSocket<Connection>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    taken: u64,
}

impl Sitting {
    /// Requests a command.
    fn begin(http: &Http, workspace: &str, spec: &Value) -> Self {
        let mut socket = http.web_socket(&format!("/v1/workspaces/{workspace}/exec/stream"));
        socket.send(Message::text(spec.to_string())).unwrap();
        Self { socket, stdout: Vec::new(), stderr: Vec::new(), taken: 0 }
    }

    /// Requests a command that must start.
    fn start(http: &Http, argv: &[&str]) -> Self {
        let mut sitting = Self::begin(http, "web", &json!({"argv": argv, "stdin": true}));
        assert_eq!(sitting.word()["started"]["workspace"], "web");
        sitting
    }

    fn send(&mut self, message: Message) {
        self.socket.send(message).unwrap();
    }

    fn control(&mut self, word: &Value) {
        self.send(Message::text(word.to_string()));
    }

    /// The next message that is neither output nor about input.
    fn word(&mut self) -> Value {
        loop {
            if let Some(word) = self.step() {
                return word;
            }
        }
    }

    /// Waits until this was printed.
    fn prints(&mut self, words: &str) {
        while !String::from_utf8_lossy(&self.stdout).contains(words) {
            if let Some(word) = self.step() {
                panic!("{word} instead of {words:?}");
            }
        }
    }

    fn step(&mut self) -> Option<Value> {
        match self.socket.read().unwrap() {
            Message::Binary(bytes) => {
                let (channel, bytes) = bytes.split_first().unwrap();
                match channel {
                    1 => self.stdout.extend(bytes),
                    2 => self.stderr.extend(bytes),
                    other => panic!("channel {other}"),
                }
                None
            }
            Message::Text(text) => {
                let word: Value = serde_json::from_str(&text).unwrap();
                self.taken += word["taken"].as_u64().unwrap_or_default();
                word["taken"].is_null().then_some(word)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the server closes the connection, which it does after its last message.
    fn hangs_up(mut self) {
        assert!(matches!(self.socket.read(), Ok(Message::Close(_)) | Err(_)));
    }
}

#[test]
fn a_command_over_a_web_socket_gets_its_input_and_reports_its_exit() {
    let place = Place::new();
    let one = place.session("one");
    one.act("workspace_create", json!({"name": "web"}));

    // Larger than any buffer in between, and binary.
    let input: Vec<u8> = (0..3u32 << 20).map(|index| index.to_le_bytes()[1]).collect();
    let mut sitting = Sitting::start(&one, &["sh", "-c", "wc -c >&2; exit 7"]);
    for piece in input.chunks(64 << 10) {
        sitting.send(Message::binary(piece.to_vec()));
    }
    sitting.control(&json!({"eof": true}));
    let exit = sitting.word();
    assert_eq!((&exit["exit"]["code"], &exit["exit"]["timed_out"]), (&json!(7), &json!(false)), "{exit}");
    assert_eq!(String::from_utf8_lossy(&sitting.stderr).trim(), input.len().to_string());
    assert_eq!(sitting.taken, input.len() as u64);
    sitting.hangs_up();

    let long = "x".repeat(100 << 10);
    let mut sitting = Sitting::start(&one, &[&["printf", "%s"], &[long.as_str(); 20][..]].concat());
    assert_eq!(sitting.word()["exit"]["code"], 0, "a command of almost 2 MiB");
    assert_eq!(sitting.stdout.len(), 20 * long.len());

    let mut sitting = Sitting::begin(&one, "web", &json!({"argv": ["true", "x".repeat(4 << 20)]}));
    assert_eq!(sitting.word()["error"]["code"], "invalid_argument", "a command that is too long");
    sitting.hangs_up();

    let mut sitting = Sitting::start(&one, &["cat"]);
    for word in ["one\n", "two\n"] {
        sitting.send(Message::binary(word.as_bytes().to_vec()));
        sitting.prints(word);
    }
    sitting.send(Message::binary(vec![0, 0xff]));
    sitting.control(&json!({"eof": true}));
    assert_eq!(sitting.word()["exit"]["code"], 0);
    assert_eq!(sitting.stdout, b"one\ntwo\n\0\xff");

    // A shell that waits for something other than a child may handle the signal only after that.
    let patient = "trap 'echo caught; exit 9' INT; echo set; while :; do sleep 0.1; done";
    let mut sitting = Sitting::start(&one, &["sh", "-c", patient]);
    sitting.prints("set\n");
    sitting.control(&json!({"signal": 2}));
    assert_eq!(sitting.word()["exit"]["code"], 9);
    assert_eq!(sitting.stdout, b"set\ncaught\n");

    // The amount of input read is reported on request.
    let line = json!({"argv": ["sh", "-c", "read line"], "stdin": true, "report_input": true});
    let mut sitting = Sitting::begin(&one, "web", &line);
    assert_eq!(sitting.word()["started"]["reports_input"], true);
    sitting.send(Message::binary(b"one\ntwo\n".to_vec()));
    assert_eq!(sitting.word(), json!({"read": 4}));
    assert_eq!(sitting.word()["exit"]["code"], 0);

    let shell = json!({"argv": ["sh", "-c", "stty size; read x; stty size; kill -9 $$"], "stdin": true, "tty": [80, 24]});
    let mut sitting = Sitting::begin(&one, "web", &shell);
    assert!(sitting.word()["started"].is_object());
    sitting.prints("24 80\r\n");
    sitting.control(&json!({"resize": [120, 40]}));
    sitting.send(Message::binary(b"\n".to_vec()));
    sitting.prints("40 120\r\n");
    let exit = sitting.word();
    assert_eq!((&exit["exit"]["code"], &exit["exit"]["signal"]), (&Value::Null, &json!(9)), "{exit}");
}

#[test]
fn a_command_that_cannot_run_over_a_web_socket_reports_the_reason() {
    let place = Place::new();
    let (one, two) = (place.session("one"), place.session("two"));
    one.act("workspace_create", json!({"name": "web"}));
    let run = json!({"argv": ["true"]});
    for (who, workspace, spec, code) in [
        (&two, "web", run.clone(), "not_owner"),
        (&one, "none", run.clone(), "workspace_not_found"),
        (&one, "web", json!("nonsense"), "invalid_argument"),
        (&one, "web", json!({"argv": 5}), "invalid_argument"),
        (&one, "web", json!({"argv": ["/no/such/program"]}), "guest_failed"),
    ] {
        let mut sitting = Sitting::begin(who, workspace, &spec);
        let word = sitting.word();
        assert_eq!(word["error"]["code"], code, "{spec}: {word}");
        sitting.hangs_up();
    }
    let late = json!({"argv": ["sleep", "1000"], "timeout_ms": 100});
    let mut sitting = Sitting::begin(&one, "web", &late);
    assert!(sitting.word()["started"].is_object());
    assert_eq!(sitting.word()["exit"]["timed_out"], true);
    assert_eq!(one.sh("web", "echo well"), "well");
}

#[test]
fn a_command_ends_when_its_web_socket_is_closed() {
    let place = Place::new();
    let (user, one) = (place.http(), place.session("one"));
    one.act("workspace_create", json!({"name": "web"}));
    let start = |name: &str| {
        let sitting = Sitting::start(&one, &["sh", "-c", &sleeper::command(name)]);
        sleeper::runs(&user, "web", name);
        sitting
    };
    drop(start("hung-up"));
    sleeper::is_gone(&user, "web", "hung-up");
    start("closed").socket.close(None).unwrap();
    sleeper::is_gone(&user, "web", "closed");
    start("confused").control(&json!({"nonsense": true}));
    sleeper::is_gone(&user, "web", "confused");
    let timeline = user.act("timeline", json!({"workspace_id": "web", "limit": 1000}));
    let cancelled =
        timeline["events"].as_array().unwrap().iter().filter(|event| event["outcome"] == "cancelled");
    assert_eq!(cancelled.count(), 3, "{timeline}");
}
