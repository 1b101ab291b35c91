//! A server that answers one request with whatever the test says.

use std::time::Duration;

use agentiso_client::Client;
use agentiso_core::{Code, Failure};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;

/// How long a test may take before it counts as hanging.
const HANGS: Duration = Duration::from_secs(60);

/// What a server does after it has read the head of a request.
pub enum Answer {
    /// Sends these bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends the first, then the second again and again for as long as the client reads.
    Endless(Vec<u8>, Vec<u8>),
    /// Sends these bytes and then nothing, without closing the connection.
    Silence(Vec<u8>),
}

impl Answer {
    /// A response with these headers and this body, and then the end of the connection.
    pub fn response(status: &str, headers: &[&str], body: &str) -> Self {
        Self::Bytes(head(status, headers).into_iter().chain(body.bytes()).collect())
    }
}

/// The head of a response.
pub fn head(status: &str, headers: &[&str]) -> Vec<u8> {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status}\r\n{headers}\r\n").into_bytes()
}

/// A server at a socket of its own.
pub struct Server {
    dir: TempDir,
    sent: JoinHandle<usize>,
}

impl Server {
    /// A server that answers the next request so.
    pub fn answering(answer: Answer) -> Self {
        Self::serving(async move |mut stream: UnixStream| {
            read_head(&mut stream).await;
            send(&mut stream, answer).await
        })
    }

    /// A server that does this with the next connection. It returns how many bytes it sent.
    pub fn serving<F>(serve: impl FnOnce(UnixStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = usize> + Send,
    {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
        let sent = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream).await
        });
        Self { dir, sent }
    }

    /// A client of it.
    pub fn client(&self) -> Client {
        Client::new(&self.dir.path().join("socket"), "test")
    }

    /// How many bytes the client let it send.
    pub async fn sent(self) -> usize {
        self.sent.await.unwrap()
    }
}

/// Reads the head of a request and returns it.
pub async fn read_head(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Sends an answer and returns how many bytes the client took.
pub async fn send(stream: &mut UnixStream, answer: Answer) -> usize {
    match answer {
        Answer::Bytes(bytes) => {
            let sent = write(stream, &bytes).await;
            // Closing a socket with unread data would reset the connection before the client has read the answer.
            let _ = stream.shutdown().await;
            drain(stream).await;
            sent
        }
        Answer::Endless(first, again) => {
            let mut sent = write(stream, &first).await;
            loop {
                match write(stream, &again).await {
                    0 => return sent,
                    more => sent += more,
                }
            }
        }
        Answer::Silence(bytes) => {
            write(stream, &bytes).await;
            drain(stream).await;
            bytes.len()
        }
    }
}

/// Reads until the client closes the connection.
async fn drain(stream: &mut UnixStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Writes bytes and returns how many the client took.
pub async fn write(stream: &mut UnixStream, bytes: &[u8]) -> usize {
    if stream.write_all(bytes).await.is_ok() { bytes.len() } else { 0 }
}

/// The failure of a call, which must not hang and must not succeed.
pub async fn failure<T>(call: impl Future<Output = Result<T, Failure>>) -> Failure {
    match tokio::time::timeout(HANGS, call).await {
        Ok(Err(failure)) => failure,
        Ok(Ok(_)) => panic!("the call succeeded"),
        Err(_) => panic!("the call hangs"),
    }
}

/// Checks that a failure has a code and a remedy, and says all these words.
pub fn says(failure: &Failure, words: &[&str]) {
    assert_eq!(failure.code(), Code::DaemonUnavailable, "{failure:?}");
    assert!(failure.remedy().is_some(), "{failure:?}");
    for word in words {
        assert!(failure.message().contains(word), "{word:?} is not in {failure:?}");
    }
}
