//! Requests and responses.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_core::wire::{CLIENT_HEADER, ErrorBody};
use agentiso_core::{Code, Failure};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::error::{broken, lost, unintelligible, unreachable};

/// The longest response that is not a stream of events.
const LONGEST: usize = 64 << 20;
/// How long the daemon may take to start its response. A stream of events starts at once, and a large request may wait
/// half a minute for other large ones.
const BEGIN: Duration = Duration::from_secs(120);
/// How long the daemon may pause in the middle of a response. Streams of events have a heartbeat of a few seconds.
const PAUSE: Duration = Duration::from_secs(120);

/// Everything but the characters that RFC 3986 never reserves.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";

/// How requests reach the daemon, and as whom.
#[derive(Clone)]
pub(crate) struct Http {
    pub socket: PathBuf,
    pub client: String,
    pub token: Option<String>,
}

impl Http {
    /// Connects to the daemon.
    pub async fn connect(&self) -> Result<UnixStream, Failure> {
        connect(&self.socket).await
    }

    /// Sends a request over a connection of its own: a unix socket costs next to nothing, and a daemon that was
    /// restarted is found again. A response that reports an error is returned as a failure.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        accept: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let answer = self.exchange(method, path, body, accept).await?;
        let status = answer.status();
        if status.is_informational() || status.is_redirection() {
            return Err(unintelligible(format!("unexpected status {status}")));
        }
        if !status.is_success() {
            return Err(failure(status, &whole(answer).await?));
        }
        require_content_type(&answer, accept)?;
        Ok(answer)
    }

    /// Sends a request and returns the response, whatever it says.
    pub async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
        accept: &str,
    ) -> Result<Response<Incoming>, Failure> {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(self.connect().await?))
                .await
                .map_err(broken)?;
        // It ends when the response was read or dropped; errors are reported to the reader of the response.
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(USER_AGENT, &self.client)
            .header(ACCEPT, accept)
            .header(CONTENT_TYPE, JSON);
        if let Some(token) = &self.token {
            request =
                request.header(AUTHORIZATION, format!("Bearer {token}")).header(CLIENT_HEADER, &self.client);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|error| {
            Failure::new(Code::InvalidArgument, format!("the request could not be written: {error}"))
        })?;
        tokio::time::timeout(BEGIN, sender.send_request(request))
            .await
            .map_err(|_| lost(&format!("the daemon did not answer within {} s", BEGIN.as_secs())))?
            .map_err(broken)
    }

    /// Sends a request and reads the whole response.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, Failure> {
        let answer = self.send(method, path, body, JSON).await?;
        serde_json::from_slice(&whole(answer).await?).map_err(unintelligible)
    }
}

async fn connect(socket: &Path) -> Result<UnixStream, Failure> {
    UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))
}

/// The failure that a response reports.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => body.into(),
        Err(_) => unintelligible(format!("status {status} without an error")),
    }
}

/// Refuses a response that is not of the requested type: it would be taken for an empty one.
fn require_content_type(answer: &Response<Incoming>, wanted: &str) -> Result<(), Failure> {
    let found = answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let essence = found.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(wanted) {
        return Ok(());
    }
    Err(unintelligible(format!("its content type is {}, not {wanted}", shortened(found))))
}

/// The beginning of something a server sent, for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

/// A part of a path.
pub(crate) fn encoded(part: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(part, RESERVED)
}

/// The next piece of a body; `None` at its end.
pub(crate) async fn next_piece(body: &mut Incoming) -> Result<Option<Bytes>, Failure> {
    loop {
        let frame = tokio::time::timeout(PAUSE, body.frame()).await.map_err(|_| {
            lost(&format!("the daemon stopped in the middle of its response for {} s", PAUSE.as_secs()))
        })?;
        match frame.transpose().map_err(broken)?.map(Frame::into_data) {
            Some(Ok(piece)) => return Ok(Some(piece)),
            // Trailers.
            Some(Err(_)) => {}
            None => return Ok(None),
        }
    }
}

/// The whole body of a response.
async fn whole(answer: Response<Incoming>) -> Result<Vec<u8>, Failure> {
    let (mut body, mut read) = (answer.into_body(), Vec::new());
    while let Some(piece) = next_piece(&mut body).await? {
        if piece.len() > LONGEST - read.len() {
            return Err(unintelligible(format!("it is longer than {LONGEST} bytes")));
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_cannot_leave_it() {
        assert_eq!(encoded("web-1_a.b~").to_string(), "web-1_a.b~");
        assert_eq!(encoded("a/../b?c#d e%ü").to_string(), "a%2F..%2Fb%3Fc%23d%20e%25%C3%BC");
    }
}
