//! One request: checked, changed and sent on; and its answer.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use agentiso_policy::egress::Rule;
use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;

use super::answer::{AnswerBody, Refusal};
use super::body::{Stopped, Watched};
use super::gate::Gate;
use super::hello::host_name;
use super::placeholders::{find, find_in_headers, replace, restore};
use crate::machine::Handling;

/// Headers that concern one connection and not the whole way.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// How requests are sent to the server.
pub(super) enum Sender {
    /// One at a time.
    One(tokio::sync::Mutex<http1::SendRequest<Watched>>),
    Two(http2::SendRequest<Watched>),
}

impl Sender {
    pub(super) fn one(sender: http1::SendRequest<Watched>) -> Self {
        Self::One(tokio::sync::Mutex::new(sender))
    }

    pub(super) fn two(sender: http2::SendRequest<Watched>) -> Self {
        Self::Two(sender)
    }

    async fn send(&self, request: Request<Watched>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::One(sender) => {
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request).await
            }
            Self::Two(sender) => {
                let mut sender = sender.clone();
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }
}

/// The requests of one connection.
pub(super) struct Exchange {
    gate: Arc<Gate>,
    /// The server's name, if the connection is TLS. Every request must be for it.
    site: Option<String>,
    server: Result<Sender, String>,
    upgrading: AtomicBool,
    tunnels: Mutex<JoinSet<()>>,
}

impl Exchange {
    pub(super) fn new(gate: Arc<Gate>, site: Option<String>, sender: Sender) -> Arc<Self> {
        Arc::new(Self {
            gate,
            site,
            server: Ok(sender),
            upgrading: AtomicBool::new(false),
            tunnels: Mutex::default(),
        })
    }

    /// A server that cannot be used, so every request is answered with the reason.
    pub(super) fn broken(gate: Arc<Gate>, site: String, what: String) -> Arc<Self> {
        let (upgrading, tunnels) = (AtomicBool::new(false), Mutex::default());
        Arc::new(Self { gate, site: Some(site), server: Err(what), upgrading, tunnels })
    }

    /// Whether the connection is about to stop being HTTP.
    pub(super) fn is_upgrading(&self) -> bool {
        self.upgrading.load(Relaxed)
    }

    /// Waits for what the connection became.
    pub(super) async fn finish(&self) {
        let mut tunnels = std::mem::take(&mut *self.tunnels.lock().unwrap_or_else(PoisonError::into_inner));
        while tunnels.join_next().await.is_some() {}
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Response<AnswerBody> {
        match self.pass(request).await {
            Ok(response) => response,
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn pass(&self, mut request: Request<Incoming>) -> Result<Response<AnswerBody>, Refusal> {
        if request.method() == Method::CONNECT {
            return Err(self.gate.refuse(None, &Rule::NotHttp("CONNECT is not passed on")));
        }
        // Its answer repeats the headers of the request, with the values of secrets.
        if request.method() == Method::TRACE {
            return Err(self.gate.refuse(None, &Rule::NotHttp("TRACE is not passed on")));
        }
        let authority = authority(&request)?;
        let host = self.check_host(authority.host())?;
        let verdict = self.gate.request_verdict(&host, request.method().as_str(), request.uri().path());
        if !verdict.allowed {
            return Err(self.gate.refuse(Some(&host), &verdict.rule));
        }
        let sender = self.server.as_ref().map_err(|what| Refusal::upstream(&host, what))?;
        let proxy = self.gate.proxy();
        let in_target = request
            .uri()
            .path_and_query()
            .and_then(|target| find(&proxy.secrets, target.as_str().as_bytes()));
        if let Some(secret) = in_target {
            return Err(self.gate.misplaced(&host, secret));
        }
        let guest = is_websocket(&request).then(|| hyper::upgrade::on(&mut request));
        let path = request.uri().path().to_owned();
        redirect(&mut request, &authority, self.site.is_some(), guest.is_some())?;
        // Over plain HTTP everybody on the way could read a secret.
        let placed = match &self.site {
            Some(_) => replace(&proxy.secrets, &host, request.headers_mut()),
            None => find_in_headers(&proxy.secrets, request.headers()).map_or(Ok(()), Err),
        };
        if let Err(secret) = placed {
            return Err(self.gate.misplaced(&host, secret));
        }
        let stopped: Stopped = Arc::new(OnceLock::new());
        let (gate, of_body) = (Arc::clone(&self.gate), Arc::clone(&proxy));
        let request = request.map(|body| Watched::new(body, gate, of_body, &host, Arc::clone(&stopped)));
        self.upgrading.store(guest.is_some(), Relaxed);
        let result = sender.send(request).await;
        let mut response = match (stopped.get(), result) {
            (Some(text), _) => return Err(Refusal { status: StatusCode::FORBIDDEN, text: text.clone() }),
            (None, Ok(response)) => response,
            (None, Err(error)) => {
                self.upgrading.store(false, Relaxed);
                return Err(Refusal::upstream(&host, &reason(&error)));
            }
        };
        restore(&proxy.secrets, response.headers_mut());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return self.tunnel(guest, response, host, path);
        }
        self.upgrading.store(false, Relaxed);
        strip_hop_by_hop(response.headers_mut());
        Ok(response.map(Either::Left))
    }

    /// The name of a request, if it may be used on this connection.
    fn check_host(&self, text: &str) -> Result<String, Refusal> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            let verdict = self.gate.literal_verdict(address);
            let is_fitting = verdict.allowed && self.site.is_none();
            let rule = if verdict.allowed { Rule::NoName } else { verdict.rule };
            return if is_fitting { Ok(text.to_owned()) } else { Err(self.gate.refuse(Some(text), &rule)) };
        }
        let Some(host) = host_name(text) else {
            return Err(self.gate.refuse(None, &Rule::NoName));
        };
        if self.site.as_ref().is_some_and(|site| *site != host) {
            return Err(self.gate.refuse(Some(&host), &Rule::OtherName(host.clone())));
        }
        let verdict = self.gate.name_verdict(&host);
        if verdict.allowed { Ok(host) } else { Err(self.gate.refuse(Some(&host), &verdict.rule)) }
    }

    /// Connects both sides once both have stopped speaking HTTP.
    fn tunnel(
        &self,
        guest: Option<OnUpgrade>,
        mut response: Response<Incoming>,
        host: String,
        path: String,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let Some(guest) = guest else {
            return Err(Refusal::upstream(&host, "the server switched protocols without being asked"));
        };
        let server = hyper::upgrade::on(&mut response);
        self.gate.handled(Handling::Upgraded { host, path });
        self.tunnels.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            if let (Ok(guest), Ok(server)) = tokio::join!(guest, server) {
                // However it ends, both sides see it.
                let _ =
                    tokio::io::copy_bidirectional(&mut TokioIo::new(guest), &mut TokioIo::new(server)).await;
            }
        });
        Ok(response.map(|_| Either::Right(Full::new(Bytes::new()))))
    }
}

/// The host and port a request is for. What says it twice must say the same.
fn authority(request: &Request<Incoming>) -> Result<Authority, Refusal> {
    let mut named = request.headers().get_all(header::HOST).iter();
    let in_header = match (named.next(), named.next()) {
        (Some(_), Some(_)) => return Err(Refusal::malformed("it has two Host headers")),
        (Some(value), None) => Some(
            Authority::try_from(value.as_bytes())
                .map_err(|_| Refusal::malformed("its Host header is malformed"))?,
        ),
        (None, _) => None,
    };
    let authority = match (request.uri().authority().cloned(), in_header) {
        (Some(target), Some(header)) if target != header => {
            return Err(Refusal::malformed("its target and its Host header name different hosts"));
        }
        (Some(authority), _) | (None, Some(authority)) => authority,
        (None, None) => return Err(Refusal::malformed("it has no Host header")),
    };
    if authority.as_str().contains('@') {
        return Err(Refusal::malformed("its target has a user name"));
    }
    Ok(authority)
}

fn is_websocket<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    let asks =
        headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    asks && request.version() == Version::HTTP_11
        && tokens(headers).any(|token| token.eq_ignore_ascii_case("upgrade"))
}

/// The entries of all Connection headers.
fn tokens(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Writes the request as the server gets it: its own framing, one Host, nothing that concerns the guest's connection.
fn redirect(
    request: &mut Request<Incoming>,
    authority: &Authority,
    is_tls: bool,
    is_websocket: bool,
) -> Result<(), Refusal> {
    let takes_trailers = request.headers().get(header::TE).is_some_and(|value| value == "trailers");
    strip_hop_by_hop(request.headers_mut());
    request.headers_mut().remove(header::HOST);
    if takes_trailers {
        request.headers_mut().insert(header::TE, HeaderValue::from_static("trailers"));
    }
    if is_websocket {
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        request.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
    let target = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if request.version() == Version::HTTP_2 {
        let mut parts = hyper::http::uri::Parts::default();
        parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(target);
        *request.uri_mut() =
            Uri::from_parts(parts).map_err(|_| Refusal::malformed("its target is malformed"))?;
        return Ok(());
    }
    *request.version_mut() = Version::HTTP_11;
    *request.uri_mut() = Uri::from(target);
    let host = HeaderValue::from_str(authority.as_str());
    let host = host.map_err(|_| Refusal::malformed("its Host header is malformed"))?;
    request.headers_mut().insert(header::HOST, host);
    Ok(())
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = tokens(headers).filter_map(|token| token.parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(*name);
    }
}

/// Why the server could not be used, without anything of the request.
fn reason(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}
