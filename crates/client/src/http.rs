//! Requests and answers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_core::wire::{CLIENT_HEADER, ErrorBody};
use agentiso_core::{Code, Failure};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use crate::error::{broken, lost, unintelligible, unreachable};

/// The longest answer that is not a stream of events.
const LONGEST: usize = 64 << 20;
/// How long the daemon may take to begin its answer. A stream of events begins at once, and a large request may wait
/// half a minute for other large ones.
const BEGIN: Duration = Duration::from_secs(120);

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
    /// restarted is found again. An answer that reports an error is returned as a failure.
    pub async fn send(
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
        // It ends when the answer was read or dropped; errors reach whoever reads the answer.
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
        let answer = tokio::time::timeout(BEGIN, sender.send_request(request))
            .await
            .map_err(|_| lost(&format!("the daemon did not answer within {} s", BEGIN.as_secs())))?
            .map_err(broken)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        Err(failure(status, &whole(answer).await?))
    }

    /// Sends a request and reads all of its answer.
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

/// The failure that an answer reports.
pub(crate) fn failure(status: StatusCode, body: &[u8]) -> Failure {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => body.into(),
        Err(_) => Failure::new(Code::DaemonUnavailable, format!("the daemon answered {status}")),
    }
}

/// A part of a path.
pub(crate) fn encoded(part: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(part, RESERVED)
}

/// All of an answer.
async fn whole(answer: Response<Incoming>) -> Result<Bytes, Failure> {
    let collected = Limited::new(answer.into_body(), LONGEST).collect().await;
    // The error is a box that hides whether the answer was too long or was cut off.
    Ok(collected.map_err(|error| lost(&format!("the connection to the daemon broke: {error}")))?.to_bytes())
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
