//! Speaks HTTP with the guest on one side and with the server on the other.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, client, server};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::authority::OneLeaf;
use super::exchange::{Exchange, Sender};
use super::gate::Gate;

/// How long a guest may take for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a guest may take for the head of a request, and how long an idle connection is kept.
const HEAD: Duration = Duration::from_secs(60);
/// The head of a request or answer, and what is buffered of a body.
const BUFFER: usize = 64 * 1024;
const MAX_HEADERS: usize = 200;
const MAX_STREAMS: u32 = 128;
/// What one stream, and all streams of a connection, may have on the way. Bounds the memory of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What the guest speaks.
pub(super) enum Kind {
    Http1,
    Http2,
    Tls {
        /// The server it wants.
        name: String,
        /// What it offers to speak.
        protocols: Vec<Vec<u8>>,
    },
}

/// Serves a connection until either side ends it.
pub(super) async fn serve(gate: Arc<Gate>, kind: Kind, guest: DuplexStream, upstream: TcpStream) {
    let is_http2 = matches!(kind, Kind::Http2);
    match kind {
        Kind::Http1 | Kind::Http2 => run(gate, None, is_http2, guest, upstream).await,
        Kind::Tls { name, protocols } => serve_tls(gate, name, &protocols, guest, upstream).await,
    }
}

/// Decrypts. The server is connected to first, with what the guest offers, and the guest gets what the server chose.
async fn serve_tls(
    gate: Arc<Gate>,
    name: String,
    protocols: &[Vec<u8>],
    mut guest: DuplexStream,
    upstream: TcpStream,
) {
    let leaf = match &gate.proxy().authority {
        Some(authority) => authority.leaf(&name).map_err(|error| error.to_string()),
        None => Err("the workspace has no certificate authority yet".to_owned()),
    };
    let leaf = match leaf {
        Ok(leaf) => leaf,
        Err(what) => {
            gate.log_failed(&name, &what);
            // A fatal "internal error"; if the guest is gone, nobody needs it.
            let _ = guest.write_all(&[21, 3, 3, 0, 2, 2, 80]).await;
            return;
        }
    };
    let offered =
        protocols.iter().filter(|name| [HTTP2, HTTP1].contains(&name.as_slice())).cloned().collect();
    match gate.machine.trust().connect(&name, offered, upstream).await {
        Ok(server) => {
            let chosen = server.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            let Some(guest) = accept(leaf, chosen.clone(), guest).await else { return };
            run(gate, Some(name), chosen.as_deref() == Some(HTTP2), guest, server).await;
        }
        Err(what) => {
            gate.log_failed(&name, &what);
            let Some(guest) = accept(leaf, None, guest).await else { return };
            let exchange = Exchange::broken(gate, name, what);
            let service = service_fn(move |request| answer(Arc::clone(&exchange), request));
            // The guest has its answer or is gone.
            let _ = http1_server().serve_connection(TokioIo::new(guest), service).await;
        }
    }
}

async fn accept(
    leaf: Arc<CertifiedKey>,
    protocol: Option<Vec<u8>>,
    guest: DuplexStream,
) -> Option<tokio_rustls::server::TlsStream<DuplexStream>> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> =
        LazyLock::new(|| Arc::new(rustls::crypto::ring::default_provider()));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER));
    let builder = builder.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
    let mut config = builder.with_cert_resolver(Arc::new(OneLeaf(leaf)));
    config.alpn_protocols = vec![protocol.unwrap_or_else(|| HTTP1.to_vec())];
    // A certificate costs less than keeping sessions of guests.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    let accepting = TlsAcceptor::from(Arc::new(config)).accept(guest);
    // A guest that does not trust the authority ends the handshake: it knows why.
    tokio::time::timeout(HANDSHAKE, accepting).await.ok()?.ok()
}

/// Passes requests from the guest to the server until either ends.
async fn run<G, S>(gate: Arc<Gate>, site: Option<String>, is_http2: bool, guest: G, server: S)
where
    G: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let connected = if is_http2 { connect2(server).await } else { connect1(server).await };
    let Ok((sender, upstream)) = connected else { return };
    let exchange = Exchange::new(gate, site, sender);
    let shared = Arc::clone(&exchange);
    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
    let guest = TokioIo::new(guest);
    // The errors of either side end the connection, which both sides see.
    if is_http2 {
        let connection = http2_server().serve_connection(guest, service);
        tokio::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = upstream.ended() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    } else {
        let connection = http1_server().serve_connection(guest, service).with_upgrades();
        tokio::pin!(connection);
        tokio::select! {
            _ = connection.as_mut() => {}
            () = upstream.ended() => {
                if !exchange.is_upgrading() {
                    connection.as_mut().graceful_shutdown();
                }
                let _ = connection.await;
            }
        }
    }
    exchange.finish().await;
}

async fn answer(
    exchange: Arc<Exchange>,
    request: Request<Incoming>,
) -> Result<hyper::Response<super::answer::AnswerBody>, Infallible> {
    Ok(exchange.answer(request).await)
}

fn http1_server() -> server::conn::http1::Builder {
    let mut builder = server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER).max_headers(MAX_HEADERS);
    // A guest may end its direction and still wait for the answer.
    builder.auto_date_header(false).preserve_header_case(true).half_close(true);
    builder
}

fn http2_server() -> server::conn::http2::Builder<TokioExecutor> {
    let mut builder = server::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(BUFFER as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(STREAM_WINDOW as usize);
    builder
}

async fn connect1<S>(server: S) -> hyper::Result<(Sender, Upstream)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = client::conn::http1::Builder::new();
    builder.max_buf_size(BUFFER).preserve_header_case(true);
    let (sender, connection) = builder.handshake(TokioIo::new(server)).await?;
    let task = tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok((Sender::one(sender), Upstream(task)))
}

async fn connect2<S>(server: S) -> hyper::Result<(Sender, Upstream)>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = client::conn::http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(BUFFER as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(STREAM_WINDOW as usize);
    let (sender, connection) = builder.handshake(TokioIo::new(server)).await?;
    let task = tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok((Sender::two(sender), Upstream(task)))
}

/// The connection to the server. It ends with the guest's.
struct Upstream(JoinHandle<()>);

impl Upstream {
    async fn ended(mut self) {
        // However it ended, nothing more comes from the server.
        let _ = (&mut self.0).await;
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.0.abort();
    }
}
