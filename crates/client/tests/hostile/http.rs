//! Responses that are not what was requested.

use agentiso_core::Code;
use agentiso_core::action::ServerStatus;

use crate::server::{Answer, Server, failure, head, says};

const JSON: &str = "content-type: application/json";
const LIMIT: usize = 64 << 20;
/// What may be on its way in buffers when the client gives up.
const BUFFERS: usize = 4 << 20;

#[tokio::test]
async fn headers_without_end_are_given_up() {
    let server =
        Server::answering(Answer::Endless(b"HTTP/1.1 200 OK\r\n".to_vec(), b"x: y\r\n".repeat(1000)));
    says(&failure(server.client().start_session(true)).await, &["connection to the daemon broke"]);
    let sent = server.sent().await;
    assert!(sent < BUFFERS, "{sent} bytes were read");
}

#[tokio::test]
async fn a_header_without_end_is_given_up() {
    let server = Server::answering(Answer::Endless(b"HTTP/1.1 200 OK\r\nx: ".to_vec(), vec![b'y'; 1 << 16]));
    says(&failure(server.client().start_session(true)).await, &["connection to the daemon broke"]);
    let sent = server.sent().await;
    assert!(sent < BUFFERS, "{sent} bytes were read");
}

#[tokio::test]
async fn a_body_without_end_is_given_up() {
    for status in ["200 OK", "500 Internal Server Error"] {
        let server = Server::answering(Answer::Endless(head(status, &[JSON]), vec![b' '; 1 << 20]));
        says(&failure(server.client().start_session(true)).await, &["longer than"]);
        let sent = server.sent().await;
        assert!(sent <= LIMIT + BUFFERS, "{sent} bytes were read");
    }
}

#[tokio::test]
async fn a_response_of_another_content_type_is_refused() {
    for content_type in ["content-type: text/html", "content-type: application/json-seq", "x-no: type"] {
        let answer = || Answer::response("200 OK", &[content_type], "{}");
        let server = Server::answering(answer());
        says(&failure(server.client().start_session(true)).await, &["content type", "application/json"]);
        let server = Server::answering(answer());
        says(&failure(server.client().act(&ServerStatus {})).await, &["content type", "text/event-stream"]);
    }
}

#[tokio::test]
async fn truncated_json_is_an_error() {
    let whole = r#"{"session_id":"1","token":"2"}"#;
    for end in [0, 1, 20, whole.len() - 1] {
        let server = Server::answering(Answer::response("200 OK", &[JSON], &whole[..end]));
        says(&failure(server.client().start_session(true)).await, &["could not be read"]);
        // The length says that there is more.
        let length = format!("content-length: {}", whole.len());
        let server = Server::answering(Answer::response("200 OK", &[JSON, &length], &whole[..end]));
        says(&failure(server.client().start_session(true)).await, &["connection to the daemon broke"]);
    }
    let server = Server::answering(Answer::response("200 OK", &[JSON], whole));
    assert_eq!(server.client().start_session(true).await.unwrap().token.expose(), "2");
}

#[tokio::test]
async fn chunks_that_make_no_sense_are_an_error() {
    for body in ["zz\r\n{}\r\n0\r\n\r\n", "5\r\n{}", "ffffffffffffffffff\r\n", "2\r\n{}nonsense", "-1\r\n"] {
        let answer = Answer::response("200 OK", &[JSON, "transfer-encoding: chunked"], body);
        let server = Server::answering(answer);
        says(&failure(server.client().start_session(true)).await, &["connection to the daemon broke"]);
    }
}

#[tokio::test]
async fn what_is_not_http_is_an_error() {
    for bytes in [&b""[..], b"\0\0\0\0", b"SSH-2.0-OpenSSH\r\n", b"HTTP/9.9 200 OK\r\n\r\n", b"HTTP/1.1 "] {
        let server = Server::answering(Answer::Bytes(bytes.to_vec()));
        says(&failure(server.client().start_session(true)).await, &["connection to the daemon broke"]);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let answer =
        Answer::response("302 Found", &["location: http://localhost/other", "content-length: 0"], "");
    let server = Server::answering(answer);
    says(&failure(server.client().start_session(true)).await, &["302 Found"]);
}

#[tokio::test]
async fn another_protocol_that_was_not_requested_is_an_error() {
    let upgrade = head("101 Switching Protocols", &["connection: upgrade", "upgrade: websocket"]);
    let server = Server::answering(Answer::Silence(upgrade.clone()));
    says(&failure(server.client().start_session(true)).await, &["101 Switching Protocols"]);
    let server = Server::answering(Answer::Silence(upgrade));
    says(&failure(server.client().act(&ServerStatus {})).await, &["101 Switching Protocols"]);
}

#[tokio::test]
async fn an_error_without_a_code_still_has_one() {
    for body in
        ["", "no", "{}", r#"{"error":{"message":"no"}}"#, r#"{"error":{"code":"nonsense","message":"no"}}"#]
    {
        let server = Server::answering(Answer::response("500 Internal Server Error", &[JSON], body));
        let failure = failure(server.client().start_session(true)).await;
        assert_eq!(failure.code(), Code::DaemonUnavailable, "{body}: {failure:?}");
    }
    let body = r#"{"error":{"code":"quota_exceeded","message":"no","remedy":"less"}}"#;
    let server = Server::answering(Answer::response("429 Too Many Requests", &[JSON], body));
    let told = failure(server.client().start_session(true)).await;
    assert_eq!((told.code(), told.remedy()), (Code::QuotaExceeded, Some("less")));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up() {
    for began in [Vec::new(), b"HTTP/1.1 200 OK\r\n".to_vec()] {
        let server = Server::answering(Answer::Silence(began));
        let told = server.client().start_session(true).await.unwrap_err();
        says(&told, &["did not answer within"]);
    }
    let server = Server::answering(Answer::Silence(head("200 OK", &[JSON, "content-length: 2"])));
    says(&server.client().start_session(true).await.unwrap_err(), &["stopped in the middle"]);
}

#[tokio::test]
async fn a_server_is_alive_if_it_answers_anything() {
    let server = Server::answering(Answer::response("404 Not Found", &["content-length: 0"], ""));
    assert!(server.client().is_alive().await);
    // As a process does that is being killed.
    let server = Server::answering(Answer::Bytes(Vec::new()));
    assert!(!server.client().is_alive().await);
    let nobody = agentiso_client::Client::new("/nonexistent/socket".as_ref(), "test");
    assert!(!nobody.is_alive().await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_is_alive() {
    let server = Server::answering(Answer::Silence(Vec::new()));
    assert!(server.client().is_alive().await);
}
