//! Streams of events that are not what they should be.

use agentiso_core::action::ServerStatus;
use agentiso_core::{Code, Failure};
use futures_util::{Stream, StreamExt};

use crate::server::{Answer, Server, failure, head, says};

const EVENTS: &str = "content-type: text/event-stream";
const LIMIT: usize = 64 << 20;
const BUFFERS: usize = 4 << 20;

fn stream(body: &str) -> Server {
    Server::answering(Answer::response("200 OK", &[EVENTS], body))
}

/// The first failure of a stream.
async fn first_failure<T>(
    events: Result<impl Stream<Item = Result<T, Failure>>, Failure>,
) -> Result<(), Failure> {
    let mut events = std::pin::pin!(events?);
    while let Some(event) = events.next().await {
        event?;
    }
    Ok(())
}

#[tokio::test]
async fn a_line_without_end_is_given_up() {
    for begin in ["data: \"", "event: ", ": ", "x"] {
        let first = [head("200 OK", &[EVENTS]), begin.into()].concat();
        let server = Server::answering(Answer::Endless(first, vec![b'x'; 1 << 20]));
        says(&failure(server.client().act(&ServerStatus {})).await, &["longer than"]);
        let sent = server.sent().await;
        assert!(sent <= LIMIT + BUFFERS, "{sent} bytes were read");
    }
}

#[tokio::test]
async fn an_event_of_lines_without_end_is_given_up() {
    let first = head("200 OK", &[EVENTS]);
    let server = Server::answering(Answer::Endless(first, b"data: 1\n".repeat(1 << 17)));
    says(&failure(server.client().act(&ServerStatus {})).await, &["longer than"]);
    let sent = server.sent().await;
    assert!(sent <= LIMIT + BUFFERS, "{sent} bytes were read");
}

#[tokio::test]
async fn an_event_that_is_not_json_or_not_utf8_is_an_error() {
    for data in ["{", "nonsense", "[1,2", "{\"a\":}"] {
        let server = stream(&format!("event: result\ndata: {data}\n\n"));
        says(&failure(server.client().act(&ServerStatus {})).await, &["could not be read"]);
    }
    let bytes = [head("200 OK", &[EVENTS]), b"event: result\ndata: \"\xff\"\n\n".to_vec()].concat();
    let server = Server::answering(Answer::Bytes(bytes));
    says(&failure(server.client().act(&ServerStatus {})).await, &["UTF-8"]);
}

#[tokio::test]
async fn a_result_of_another_form_is_an_error() {
    for data in ["null", "7", "{}", "[]", "{\"version\":7}"] {
        let server = stream(&format!("event: result\ndata: {data}\n\n"));
        says(&failure(server.client().act(&ServerStatus {})).await, &["could not be read"]);
    }
}

#[tokio::test]
async fn an_error_event_without_a_code_still_has_one() {
    for data in ["{}", "7", "{\"error\":{\"message\":\"no\"}}"] {
        let server = stream(&format!("event: error\ndata: {data}\n\n"));
        says(&failure(server.client().act(&ServerStatus {})).await, &["could not be read"]);
    }
    let server = stream("event: error\ndata: {\"error\":{\"code\":\"rate_limited\",\"message\":\"no\"}}\n\n");
    assert_eq!(failure(server.client().act(&ServerStatus {})).await.code(), Code::RateLimited);
}

#[tokio::test]
async fn a_stream_that_ends_without_a_result_is_an_error() {
    for body in
        ["", ": comment\n\n", "event: progress\ndata: {\"step\":\"x\",\"total\":null}\n\n", "event: result\n"]
    {
        let server = stream(body);
        says(&failure(server.client().act(&ServerStatus {})).await, &["before it answered"]);
    }
}

#[tokio::test]
async fn events_of_workspaces_and_jobs_that_make_no_sense_are_errors() {
    for body in ["event: created\ndata: {}\n\n", "event: missed\ndata: {\"missed\":-1}\n\n"] {
        let server = stream(body);
        let client = server.client();
        says(&failure(async { first_failure(client.watch().await).await }).await, &["could not be read"]);
    }
    for body in ["event: output\ndata: 7\n\n", "event: surprise\ndata: 7\n\n", "event: exit\ndata: \"x\"\n\n"]
    {
        let server = stream(body);
        let client = server.client();
        let followed = async { first_failure(client.job_output("web", 1).await).await };
        says(&failure(followed).await, &["could not be read"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_falls_silent_is_given_up() {
    // Without a heartbeat: a daemon that lives sends one.
    for begin in ["", "event: progress\ndata: {\"advance\":1}\n\n", "data: {"] {
        let bytes = [head("200 OK", &[EVENTS]), begin.into()].concat();
        let server = Server::answering(Answer::Silence(bytes));
        let told = server.client().act(&ServerStatus {}).await.unwrap_err();
        says(&told, &["stopped in the middle"]);
    }
}
