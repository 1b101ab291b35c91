//! Web servers on loopback, with and without TLS, and clients for them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A certificate authority that the servers of a test are certified by.
pub struct Pki {
    pub root: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Pki {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = params.self_signed(&key).unwrap().der().clone();
        Self { root, issuer: Issuer::new(params, key) }
    }

    /// TLS for a server with one name.
    pub fn server(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
        let mut config =
            builder.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub fn from_pem(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Opens TLS as a client that trusts one root.
pub async fn tls<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    name: &str,
    root: CertificateDer<'static>,
    protocols: &[&str],
) -> std::io::Result<TlsStream<S>> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    tokio::time::timeout(super::PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream))
        .await
        .unwrap()
}

/// What a server was asked: the request line, and its headers.
#[derive(Clone, Debug)]
pub struct Asked {
    pub line: String,
    pub headers: hyper::HeaderMap,
    pub body: Bytes,
}

/// A web server that answers every request with `served` and its number, and remembers it.
#[derive(Clone, Default)]
pub struct Web {
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Web {
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Serves HTTP/1 on a listener.
    pub fn plain(&self, listener: TcpListener) {
        let web = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(web.clone().serve(stream, false));
            }
        });
    }

    /// Serves HTTP/2 without TLS.
    pub fn plain2(&self, listener: TcpListener) {
        let web = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(web.clone().serve(stream, true));
            }
        });
    }

    /// Serves over TLS, with the version that is negotiated.
    pub fn tls(&self, listener: TcpListener, acceptor: TlsAcceptor) {
        let web = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (web, acceptor) = (web.clone(), acceptor.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        web.serve(stream, is_http2).await;
                    }
                });
            }
        });
    }

    async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(self, stream: S, is_http2: bool) {
        let service = service_fn(move |request| self.clone().answer(request));
        if is_http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        } else {
            let builder = hyper::server::conn::http1::Builder::new();
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let line = format!("{} {}", request.method(), request.uri());
        let headers = request.headers().clone();
        let Ok(body) = request.into_body().collect().await else {
            return Ok(Response::new(Full::new(Bytes::from_static(b"broken body"))));
        };
        let mut asked = self.asked.lock().unwrap();
        asked.push(Asked { line, headers: headers.clone(), body: body.to_bytes() });
        let mut response = Response::new(Full::new(Bytes::from(format!("served {}", asked.len()))));
        if let Some(value) = headers.get("authorization") {
            response.headers_mut().insert("x-echo", value.clone());
        }
        Ok(response)
    }
}

/// A client of HTTP/1 over any stream.
pub async fn http1<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
) -> hyper::client::conn::http1::SendRequest<Full<Bytes>> {
    let (sender, connection) =
        hyper::client::conn::http1::Builder::new().handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

/// A client of HTTP/2 over any stream.
pub async fn http2<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

/// A GET request with one more header.
pub fn get(target: &str, host: &str, header: (&str, &str)) -> Request<Full<Bytes>> {
    let builder = Request::get(target).header("host", host).header(header.0, header.1);
    builder.body(Full::default()).unwrap()
}

/// The status and the text of an answer.
pub async fn read(response: Response<Incoming>) -> (u16, String) {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}
