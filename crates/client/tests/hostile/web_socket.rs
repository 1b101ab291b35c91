//! Command streams that are not what they should be.

use agentiso_client::ExecEvent;
use agentiso_core::wire::{ExecSpec, ExecWord};
use agentiso_core::{Code, Failure};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::server::{Answer, Server, failure, head, read_head, says, send, write};

const STARTED: &str = r#"{"started":{"workspace_id":"1","workspace":"web"}}"#;
const BUFFERS: usize = 4 << 20;
/// The longest message that the client reads.
const LIMIT: usize = 16 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const FINAL: u8 = 0x80;

/// A server that accepts a stream and then sends this.
fn accepting(answer: Answer) -> Server {
    Server::serving(async move |mut stream: UnixStream| {
        let request = read_head(&mut stream).await;
        let key = request.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = format!("sec-websocket-accept: {}", derive_accept_key(key.trim().as_bytes()));
        let headers = ["connection: upgrade", "upgrade: websocket", accept.as_str()];
        let accepted = head("101 Switching Protocols", &headers);
        let first = write(&mut stream, &accepted).await;
        first + send(&mut stream, answer).await
    })
}

/// A frame, with a length that need not be that of its content.
fn frame(first: u8, length: u64, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 127];
    frame.extend(length.to_be_bytes());
    frame.extend(content);
    frame
}

fn whole(kind: u8, content: &[u8]) -> Vec<u8> {
    frame(FINAL | kind, content.len() as u64, content)
}

/// Reads a stream until it ends, or fails.
async fn heard(server: &Server) -> Result<Vec<ExecEvent>, Failure> {
    let (_input, mut output) = server.client().exec("web", &ExecSpec::default()).await?.split();
    let mut events = Vec::new();
    loop {
        let event = output.next().await?;
        let ends = matches!(event, ExecEvent::Word(ExecWord::Exit(_) | ExecWord::Error { .. }));
        events.push(event);
        if ends {
            return Ok(events);
        }
    }
}

#[tokio::test]
async fn a_stream_as_it_should_be_is_read() {
    let exit = r#"{"exit":{"code":0,"signal":null,"timed_out":false,"usage":{"wall_us":1,"user_us":2,"system_us":3,"max_rss_kib":4}}}"#;
    let frames = [
        whole(TEXT, STARTED.as_bytes()),
        whole(BINARY, b"\x01out"),
        whole(PING, b""),
        whole(TEXT, exit.as_bytes()),
    ];
    let server = accepting(Answer::Bytes(frames.concat()));
    let events = heard(&server).await.unwrap();
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[1], ExecEvent::Stdout("out".into()));
}

#[tokio::test]
async fn frames_out_of_order_are_an_error() {
    for frames in [
        whole(CONTINUATION, b"there was no beginning"),
        [frame(TEXT, 1, b"{"), whole(TEXT, b"another beginning")].concat(),
        // Control frames are never fragments.
        frame(PING, 1, b"x"),
        // Unknown kinds and reserved bits.
        whole(3, b""),
        frame(FINAL | 0x40 | TEXT, 2, b"{}"),
    ] {
        let server = accepting(Answer::Bytes(frames));
        says(&failure(heard(&server)).await, &["connection to the command was lost"]);
    }
}

#[tokio::test]
async fn a_frame_that_is_too_long_is_refused_before_it_is_read() {
    for length in [(LIMIT as u64) + 1, 1 << 40, u64::MAX] {
        let server = accepting(Answer::Endless(frame(FINAL | BINARY, length, b"\x01"), vec![0; 1 << 16]));
        says(&failure(heard(&server)).await, &["connection to the command was lost"]);
        let sent = server.sent().await;
        assert!(sent < BUFFERS, "{sent} bytes were read");
    }
}

#[tokio::test]
async fn a_message_of_fragments_without_end_is_given_up() {
    let fragment = frame(CONTINUATION, 1 << 16, &[b'x'; 1 << 16]);
    let server = accepting(Answer::Endless(frame(TEXT, 1, b"{"), fragment));
    says(&failure(heard(&server)).await, &["connection to the command was lost"]);
    let sent = server.sent().await;
    assert!(sent <= LIMIT + BUFFERS, "{sent} bytes were read");
}

#[tokio::test]
async fn text_that_is_not_utf8_or_not_a_word_is_an_error() {
    let server = accepting(Answer::Bytes(whole(TEXT, b"\"\xff\"")));
    says(&failure(heard(&server)).await, &["connection to the command was lost"]);
    for text in ["", "{", "{}", "7", r#"{"unknown":1}"#, r#"{"exit":{"code":"x"}}"#, r#"{"taken":-1}"#] {
        let server = accepting(Answer::Bytes(whole(TEXT, text.as_bytes())));
        says(&failure(heard(&server)).await, &["could not be read"]);
    }
    let server = accepting(Answer::Bytes(whole(BINARY, b"\x07x")));
    says(&failure(heard(&server)).await, &["unknown channel 7"]);
}

#[tokio::test]
async fn an_end_in_the_middle_is_an_error() {
    let started = whole(TEXT, STARTED.as_bytes());
    for end in [Vec::new(), whole(CLOSE, b""), frame(FINAL | BINARY, 100, b"\x01half"), vec![FINAL | TEXT]] {
        let server = accepting(Answer::Bytes([started.clone(), end].concat()));
        says(&failure(heard(&server)).await, &["connection to the command was lost"]);
    }
}

#[tokio::test]
async fn a_stream_that_is_not_accepted_is_an_error() {
    let json = "content-type: application/json";
    let body = r#"{"error":{"code":"workspace_not_found","message":"no"}}"#;
    let length = format!("content-length: {}", body.len());
    let server = Server::answering(Answer::response("404 Not Found", &[json, &length], body));
    assert_eq!(failure(heard(&server)).await.code(), Code::WorkspaceNotFound);
    for answer in [
        Answer::response("200 OK", &[json, "content-length: 2"], "{}"),
        Answer::response("302 Found", &["location: /elsewhere", "content-length: 0"], ""),
        Answer::response("101 Switching Protocols", &["connection: upgrade", "upgrade: websocket"], ""),
        Answer::response(
            "101 Switching Protocols",
            &["connection: upgrade", "upgrade: websocket", "sec-websocket-accept: wrong"],
            "",
        ),
        Answer::Bytes(b"nonsense\r\n\r\n".to_vec()),
        Answer::Bytes(Vec::new()),
    ] {
        let server = Server::answering(answer);
        says(&failure(heard(&server)).await, &[]);
    }
    let server = Server::answering(Answer::Endless(b"HTTP/1.1 101 X\r\nx: ".to_vec(), vec![b'y'; 1 << 16]));
    says(&failure(heard(&server)).await, &[]);
    let sent = server.sent().await;
    assert!(sent <= LIMIT + BUFFERS, "{sent} bytes were read");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_accepts_is_given_up() {
    let server = Server::answering(Answer::Silence(b"HTTP/1.1 101 ".to_vec()));
    says(&heard(&server).await.unwrap_err(), &["did not answer within"]);
}
