//! Authentication: who sends a request, and whether it is answered at all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentiso_core::wire::{CLIENT_HEADER, SESSION_HEADER};
use agentiso_core::{Code, Failure};
use agentiso_engine::{Caller, Identity};
use axum::extract::{FromRequestParts, Request, State as Extracted};
use axum::http::header::{AUTHORIZATION, CONNECTION, HOST, ORIGIN, USER_AGENT, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;

use super::answer::Failed;
use super::router::State;

/// Where a request comes from.
#[derive(Clone, Debug)]
pub enum Door {
    /// The unix socket, which only the daemon's own user can open.
    Socket,
    /// The network. Every request needs a token.
    Network {
        /// The user's token.
        token: Token,
        /// Host names that requests may be for, besides those of the loopback interface.
        names: Vec<String>,
    },
}

/// A secret that is never shown.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// Makes one.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Whether a request on a connection was authenticated. The server of a connection puts one into the extensions of each
/// of its requests.
#[derive(Clone, Debug, Default)]
pub struct Admission(Arc<AtomicBool>);

impl Admission {
    /// Notes that a request was authenticated.
    pub fn grant(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether a request was authenticated.
    pub fn is_granted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// In the extensions of a response: its request was authenticated.
#[derive(Clone, Copy)]
struct Admitted;

/// Authenticates requests, and tells the handlers who the caller is.
pub(super) async fn admit(Extracted(state): Extracted<State>, mut request: Request, next: Next) -> Response {
    match caller(&state, request.headers()).await {
        Ok(caller) => {
            if let Some(admission) = request.extensions().get::<Admission>() {
                admission.grant();
            }
            request.extensions_mut().insert(caller);
            let mut response = next.run(request).await;
            response.extensions_mut().insert(Admitted);
            response
        }
        Err(failure) => {
            let mut response = Failed(failure).into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                response
                    .headers_mut()
                    .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"agentiso\""));
            }
            response
        }
    }
}

/// Closes a connection from the network after a request that was not authenticated, so that strangers cannot keep
/// connections open.
pub(super) async fn dismiss(Extracted(state): Extracted<State>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    match state.door {
        Door::Network { .. } if response.extensions().get::<Admitted>().is_none() => closing(response),
        _ => response,
    }
}

/// A response after which the connection is closed.
pub(super) fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn caller(state: &State, headers: &HeaderMap) -> Result<Caller, Failure> {
    let token = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("bearer ")));
    match (&state.door, token) {
        (Door::Socket, None) => user(state, headers).await,
        (Door::Socket, Some(token)) => session(state, headers, token).await,
        (Door::Network { token: own, names }, token) => {
            require_own_name(headers, names)?;
            match token {
                Some(given) if own.is(given) => user(state, headers).await,
                Some(given) => session(state, headers, given).await,
                None => Err(Failure::new(Code::Unauthorized, "a token is needed")
                    .with_remedy("send the token of daemon.token_file as Authorization: Bearer")),
            }
        }
    }
}

/// The user, or a client with the user's token and a session of its own.
async fn user(state: &State, headers: &HeaderMap) -> Result<Caller, Failure> {
    let said = headers.get(CLIENT_HEADER).and_then(|value| value.to_str().ok()).map(shown);
    let client = said.unwrap_or_else(|| client(headers));
    match headers.get(SESSION_HEADER) {
        None => Ok(Caller::operator(client)),
        // A header that is not text is refused like a secret that is too short.
        Some(value) => {
            let secret = Identity::Secret(value.to_str().unwrap_or_default());
            state.backend.client_known_by(secret, &client).await
        }
    }
}

/// A session, under the name that its client gives itself now.
async fn session(state: &State, headers: &HeaderMap, token: &str) -> Result<Caller, Failure> {
    let mut caller = state.backend.caller_of(token).await?;
    if headers.contains_key(SESSION_HEADER) {
        let message = "the token of a session says which session it is, so Agentiso-Session cannot";
        return Err(Failure::new(Code::InvalidArgument, message).with_remedy(
            "send one of the two: the session's token, or the user's token and Agentiso-Session",
        ));
    }
    let said = headers.get(CLIENT_HEADER).and_then(|value| value.to_str().ok()).map(shown);
    if let Some(name) = said.filter(|name| !name.trim().is_empty()) {
        caller.client = name;
    }
    Ok(caller)
}

/// Refuses requests that a foreign web page sends: they are for another host name, or come from another origin.
pub(super) fn require_own_name(headers: &HeaderMap, names: &[String]) -> Result<(), Failure> {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let host = text(HOST).map(host_of);
    let origin =
        text(ORIGIN).map(|origin| host_of(origin.split_once("://").map_or(origin, |(_, rest)| rest)));
    let own =
        |name: &str| matches!(name, "localhost" | "127.0.0.1" | "::1") || names.iter().any(|own| own == name);
    match (host, origin) {
        (Some(host), _) if !own(host) => Err(foreign("host", host)),
        (_, Some(origin)) if !own(origin) => Err(foreign("origin", origin)),
        _ => Ok(()),
    }
}

fn foreign(what: &str, name: &str) -> Failure {
    let name: String = name.chars().take(100).collect();
    Failure::new(Code::PermissionDenied, format!("requests for the {what} {name:?} are not answered"))
}

/// A host without its port.
fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

fn client(headers: &HeaderMap) -> String {
    let said = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or("unknown");
    shown(said)
}

fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(128).collect()
}

/// The caller, for handlers.
pub(super) struct Asking(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for Asking {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failed> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller
            .map(Self)
            .ok_or_else(|| Failed(Failure::new(Code::Unauthorized, "the request was not authenticated")))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(host: &str, origin: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        headers
    }

    #[test]
    fn only_our_own_names_are_answered() {
        let names = ["box.example".to_owned()];
        for (host, origin) in [
            ("localhost:1", None),
            ("127.0.0.1", Some("http://127.0.0.1:9")),
            ("[::1]:80", None),
            ("box.example:7070", Some("https://box.example")),
        ] {
            require_own_name(&headers(host, origin), &names).unwrap();
        }
        for (host, origin) in [
            ("evil.example", None),
            ("evil.example:80", None),
            ("localhost", Some("http://evil.example")),
            ("localhost.evil.example", None),
            ("localhost", Some("null")),
        ] {
            let refused = require_own_name(&headers(host, origin), &names).unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied, "{host} {origin:?}");
        }
    }

    #[test]
    fn a_token_is_told_from_others_and_is_not_shown() {
        let token = Token::new("geheim".to_owned());
        assert!(token.is("geheim") && !token.is("gehei") && !token.is(""));
        assert!(!format!("{token:?}").contains("geheim"));
    }
}
