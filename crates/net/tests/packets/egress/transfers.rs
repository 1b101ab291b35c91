//! Large bodies: whole, and in bounded memory.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Context, Poll};

use agentiso_core::{HttpAction, HttpRule, NetworkRules};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::sync::Notify;

use super::setting::*;
use crate::support::web;
use crate::support::*;

const CHUNK: usize = 64 * 1024;
/// What may be on the way: rings, pipes and windows on every hop, and nothing that grows with the body.
const BOUND: u64 = 8 << 20;

/// A body that is made as it is sent.
struct Made {
    left: u64,
    sent: Arc<AtomicU64>,
}

impl Body for Made {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        static ZEROES: [u8; CHUNK] = [0; CHUNK];
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let count = self.left.min(CHUNK as u64);
        self.left -= count;
        self.sent.fetch_add(count, SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&ZEROES[..count as usize])))))
    }
}

fn looked_at() -> NetworkRules {
    let rule = HttpRule {
        host: API.to_owned(),
        methods: Vec::new(),
        paths: strings(&["/"]),
        action: HttpAction::Allow,
    };
    NetworkRules { http_rules: vec![rule], ..proxied() }
}

/// A server over TLS that counts a body after it may begin, and answers with one of the same length.
async fn mirror(setting: &Setting, protocol: &'static str, begin: Arc<Notify>, received: Arc<AtomicU64>) {
    let listener = setting.net.uplink.listen(PUBLIC, 443).await;
    let acceptor = setting.pki.server(API, &[protocol]);
    let answer = move |request: Request<Incoming>| {
        let (begin, received) = (Arc::clone(&begin), Arc::clone(&received));
        async move {
            begin.notified().await;
            let (mut body, mut length) = (request.into_body(), 0);
            while let Some(frame) = body.frame().await {
                let count = frame.unwrap().data_ref().map_or(0, Bytes::len) as u64;
                length += count;
                received.fetch_add(count, SeqCst);
            }
            Ok::<_, Infallible>(Response::new(Made { left: length, sent: Arc::default() }))
        }
    };
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
        let service = service_fn(answer);
        let _ = match protocol {
            "h2" => {
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(stream, service)
                    .await
            }
            _ => hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await,
        };
    });
}

/// Sends a body to a server that reads nothing at first, and gets one back.
async fn there_and_back(protocol: &'static str, length: u64) {
    let setting = Setting::new(looked_at(), &[API]).await;
    let (begin, received, sent) = (Arc::new(Notify::new()), Arc::default(), Arc::new(AtomicU64::new(0)));
    mirror(&setting, protocol, Arc::clone(&begin), Arc::clone(&received)).await;
    let stream = TokioIo::new(setting.intercepted(API, &[protocol]).await);
    let body = Made { left: length, sent: Arc::clone(&sent) };
    let request = Request::post(format!("https://{API}/")).header("host", API).body(body).unwrap();
    let answering: Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>> = if protocol
        == "h2"
    {
        let (mut sender, connection) =
            hyper::client::conn::http2::Builder::new(TokioExecutor::new()).handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Box::pin(async move { sender.send_request(request).await })
    } else {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Box::pin(async move { sender.send_request(request).await })
    };
    let answering = tokio::spawn(answering);

    // Wait until nothing moves: everything on the way is full.
    let mut before = u64::MAX;
    while before != sent.load(SeqCst) || before == 0 {
        before = sent.load(SeqCst);
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    assert!(before < BOUND.min(length), "{before} bytes were taken though the server read none");
    assert_eq!(received.load(SeqCst), 0);

    begin.notify_one();
    let mut body = answering.await.unwrap().unwrap().into_body();
    assert_eq!((sent.load(SeqCst), received.load(SeqCst)), (length, length));
    let mut back = 0;
    while let Some(frame) = body.frame().await {
        back += frame.unwrap().data_ref().map_or(0, Bytes::len) as u64;
    }
    assert_eq!(back, length);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_over_http1_passes_in_bounded_memory() {
    there_and_back("http/1.1", 32 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_body_over_http2_passes_in_bounded_memory() {
    there_and_back("h2", 32 << 20).await;
}

#[tokio::test]
async fn trailers_of_http2_pass() {
    let setting = Setting::new(looked_at(), &[API]).await;
    let listener = setting.net.uplink.listen(PUBLIC, 443).await;
    let acceptor = setting.pki.server(API, &["h2"]);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(|request: Request<Incoming>| async move {
            let collected = request.into_body().collect().await.unwrap();
            let sum = collected.trailers().unwrap()["x-sum"].clone();
            let trailers = hyper::HeaderMap::from_iter([("x-back".parse().unwrap(), sum)]);
            let body = http_body_util::Full::new(Bytes::from_static(b"ok"));
            Ok::<_, Infallible>(Response::new(body.with_trailers(std::future::ready(Some(Ok(trailers))))))
        });
        let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(stream, service).await;
    });
    let stream = TokioIo::new(setting.intercepted(API, &["h2"]).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::Builder::new(TokioExecutor::new()).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let trailers = hyper::HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    let body = http_body_util::Full::new(Bytes::from_static(b"hello"));
    let body = body.with_trailers(std::future::ready(Some(Ok::<_, Infallible>(trailers))));
    let request = Request::post(format!("https://{API}/")).body(body).unwrap();
    let answer = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.trailers().unwrap()["x-back"], "7");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_transfer_that_is_not_looked_at_arrives_whole() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let setting = Setting::new(proxied(), &[API]).await;
    let listener = setting.net.uplink.listen(PUBLIC, 443).await;
    let acceptor = setting.pki.server(API, &[]);
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut buffer = vec![0; CHUNK];
        let mut count = 0;
        while count < 32 << 20 {
            count += stream.read(&mut buffer).await.unwrap();
        }
        stream.write_all(b"done").await.unwrap();
        count
    });
    let stream = setting.connect(PUBLIC, 443).await;
    let mut tls = web::tls(stream, API, setting.pki.root.clone(), &[]).await.unwrap();
    for _ in 0..(32 << 20) / CHUNK {
        tls.write_all(&[7; CHUNK]).await.unwrap();
    }
    tls.flush().await.unwrap();
    tls.read_exact(&mut [0; 4]).await.unwrap();
    assert_eq!(server.await.unwrap(), 32 << 20);
}
