//! The web servers: HTTP and HTTPS on every address.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderName};
use hyper::service::service_fn;
use hyper::{StatusCode, Version};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::arrivals::{Arrivals, Request};
use super::certificates::Certificates;
use super::git;

/// The largest answer of `/bytes/N`.
const MAX_BYTES: usize = 256 << 20;

/// What the servers serve.
pub(super) struct Site {
    pub(super) arrivals: Arrivals,
    pub(super) certificates: Certificates,
    /// Repositories, below `/git/`.
    pub(super) repositories: PathBuf,
    /// Packages, below `/apt/` and `/simple/`.
    pub(super) packages: PathBuf,
}

/// Serves on port 80, and with TLS on port 443, of every address of the namespace.
pub(super) async fn serve(site: Rc<Site>) {
    let plain = TcpListener::bind("0.0.0.0:80").await.expect("a port of the namespace");
    let secure = TcpListener::bind("0.0.0.0:443").await.expect("a port of the namespace");
    let acceptor = TlsAcceptor::from(site.certificates.server.clone());
    let plain_site = Rc::clone(&site);
    spawn_local(async move {
        while let Ok((stream, from)) = plain.accept().await {
            let Ok(to) = stream.local_addr() else { continue };
            spawn_local(converse(Rc::clone(&plain_site), stream, to, from, None));
        }
    });
    spawn_local(async move {
        while let Ok((stream, from)) = secure.accept().await {
            let Ok(to) = stream.local_addr() else { continue };
            let (acceptor, site) = (acceptor.clone(), Rc::clone(&site));
            spawn_local(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let name = stream.get_ref().1.server_name().unwrap_or_default().to_owned();
                converse(site, stream, to, from, Some(name)).await;
            });
        }
    });
}

async fn converse(
    site: Rc<Site>,
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    to: SocketAddr,
    from: SocketAddr,
    tls_name: Option<String>,
) {
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (site, tls_name) = (Rc::clone(&site), tls_name.clone());
        async move {
            let header = |name: HeaderName| {
                let value = request.headers().get(name)?;
                Some(value.to_str().ok()?.to_owned())
            };
            let host = request.uri().authority().map(ToString::to_string).or_else(|| header(HOST));
            site.arrivals.request(Request {
                to,
                from,
                tls_name,
                protocol: match request.version() {
                    Version::HTTP_2 => "HTTP/2.0".to_owned(),
                    _ => "HTTP/1.1".to_owned(),
                },
                host: host.unwrap_or_default(),
                path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
                authorization: header(AUTHORIZATION),
            });
            Ok::<_, Infallible>(answer(&site, to, request).await)
        }
    });
    // A client may leave at any point.
    let _ = auto::Builder::new(LocalExecutor).serve_connection(TokioIo::new(stream), service).await;
}

/// Runs the tasks of HTTP/2 in the thread of the namespace.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        spawn_local(task);
    }
}

async fn answer(
    site: &Site,
    to: SocketAddr,
    request: hyper::Request<Incoming>,
) -> hyper::Response<Full<Bytes>> {
    let path = request.uri().path().to_owned();
    if let Some(count) = path.strip_prefix("/bytes/").and_then(|count| count.parse::<usize>().ok()) {
        return body(vec![b'x'; count.min(MAX_BYTES)]);
    }
    if path.starts_with("/git/") {
        return git::answer(&site.repositories, request).await;
    }
    if path.starts_with("/apt/") || path.starts_with("/simple/") {
        return file(site, &path);
    }
    if path == "/echo" {
        return match request.into_body().collect().await {
            Ok(collected) => body(collected.to_bytes()),
            Err(_) => status(StatusCode::BAD_REQUEST),
        };
    }
    body(format!("hello from {}\n", to.ip()))
}

fn file(site: &Site, path: &str) -> hyper::Response<Full<Bytes>> {
    let mut relative = path.trim_start_matches('/').to_owned();
    if relative.ends_with('/') {
        relative.push_str("index.html");
    }
    let is_plain = !relative.split('/').any(|part| part == "..");
    match std::fs::read(site.packages.join(&relative)) {
        Ok(bytes) if is_plain => {
            let mut response = body(bytes);
            if relative.ends_with(".html") {
                response.headers_mut().insert(
                    hyper::header::CONTENT_TYPE,
                    hyper::header::HeaderValue::from_static("text/html"),
                );
            }
            response
        }
        _ => status(StatusCode::NOT_FOUND),
    }
}

pub(super) fn body(bytes: impl Into<Bytes>) -> hyper::Response<Full<Bytes>> {
    hyper::Response::new(Full::new(bytes.into()))
}

pub(super) fn status(code: StatusCode) -> hyper::Response<Full<Bytes>> {
    let mut response = body("");
    *response.status_mut() = code;
    response
}
