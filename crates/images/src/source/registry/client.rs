//! The few requests of the distribution protocol that a pull needs.

use std::time::Duration;

use oci_spec::distribution::Reference;
use reqwest::header::{ACCEPT, AUTHORIZATION};
use reqwest::{Client, Response, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::answer::{read_all, read_start};
use super::auth::authorise;
use super::login::Login;

const CONNECT_WITHIN: Duration = Duration::from_secs(20);
const READ_WITHIN: Duration = Duration::from_secs(60);
const ERROR_MAX: usize = 16 << 10;
/// How much of a registry's error message is quoted.
const QUOTED_CHARS: usize = 300;
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// A network or HTTP error.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// There is no such image or blob.
    #[error("the registry has no such image")]
    NotFound,
    /// A login is required, or was refused.
    #[error("the registry wants a login")]
    Login,
    /// The registry refused the request.
    #[error("the registry answered {status}: {said}")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The start of what the registry said, printable.
        said: String,
    },
    /// An answer is larger than it may be.
    #[error("its {what} has more than {max} bytes")]
    TooLarge {
        /// What was asked for.
        what: &'static str,
        /// How much was allowed.
        max: u64,
    },
    /// An answer arrives too slowly.
    #[error("its {what} did not arrive in time")]
    TooSlow {
        /// What was asked for.
        what: &'static str,
    },
    /// An invalid response.
    #[error("its {what} cannot be understood: {reason}")]
    Nonsense {
        /// What was asked for.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// One registry, and one repository in it.
pub(super) struct RegistryClient {
    http: Client,
    /// `scheme://host/v2/repository`
    base: String,
    repository: String,
    login: Option<Login>,
    authorization: Mutex<Option<String>>,
}

impl RegistryClient {
    pub(super) fn new(reference: &Reference, login: Option<Login>) -> Result<Self, Fault> {
        let registry = reference.resolve_registry();
        let is_near = is_loopback(host_of(registry));
        let http = Client::builder()
            .connect_timeout(CONNECT_WITHIN)
            .read_timeout(READ_WITHIN)
            .https_only(!is_near)
            .user_agent(concat!("agentiso/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let scheme = if is_near { "http" } else { "https" };
        let repository = reference.repository().to_owned();
        let base = format!("{scheme}://{registry}/v2/{repository}");
        Ok(Self { http, base, repository, login, authorization: Mutex::new(None) })
    }

    /// A manifest or an index by tag or digest, of at most `max` bytes.
    pub(super) async fn manifest(&self, reference: &str, max: u64) -> Result<Vec<u8>, Fault> {
        let answer = self.get(&format!("{}/manifests/{reference}", self.base)).await?;
        read_all(answer, max, "manifest").await
    }

    /// A blob; its reader decides how much it takes.
    pub(super) async fn blob(&self, digest: &str) -> Result<Response, Fault> {
        self.get(&format!("{}/blobs/{digest}", self.base)).await
    }

    /// Sends a request, and again with a new token if the registry requires one. Tokens expire during long pulls.
    async fn get(&self, url: &str) -> Result<Response, Fault> {
        let answer = self.send(url).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return accepted(answer).await;
        }
        let value = authorise(&self.http, answer.headers(), &self.repository, self.login.as_ref()).await?;
        *self.authorization.lock().await = Some(value);
        accepted(self.send(url).await?).await
    }

    async fn send(&self, url: &str) -> Result<Response, Fault> {
        let mut request = self.http.get(url).header(ACCEPT, ACCEPTED);
        if let Some(value) = self.authorization.lock().await.as_deref() {
            request = request.header(AUTHORIZATION, value);
        }
        Ok(request.send().await?)
    }
}

async fn accepted(answer: Response) -> Result<Response, Fault> {
    match answer.status() {
        status if status.is_success() => Ok(answer),
        StatusCode::NOT_FOUND => Err(Fault::NotFound),
        StatusCode::UNAUTHORIZED => Err(Fault::Login),
        status => {
            let said = quoted(&read_start(answer, ERROR_MAX).await);
            Err(Fault::Refused { status, said })
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    errors: Vec<RegistryError>,
}

#[derive(Deserialize)]
struct RegistryError {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// A registry's error message: printable and of limited length.
fn quoted(body: &[u8]) -> String {
    let text = match serde_json::from_slice::<Envelope>(body) {
        Ok(envelope) => {
            let told = envelope.errors.iter().map(|error| format!("{} {}", error.code, error.message));
            told.collect::<Vec<_>>().join("; ")
        }
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };
    let text: String = text.trim().chars().take(QUOTED_CHARS).collect();
    if text.is_empty() { "no reason given".to_owned() } else { text.escape_debug().to_string() }
}

/// The host of `host[:port]`.
fn host_of(registry: &str) -> &str {
    if registry.starts_with('[') {
        return registry.split_inclusive(']').next().unwrap_or_default();
    }
    registry.rsplit_once(':').map_or(registry, |(host, _)| host)
}

/// Whether a host is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        let is_near = |registry| is_loopback(host_of(registry));
        for near in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1", "[::1]:5000", "[::1]"] {
            assert!(is_near(near), "{near}");
        }
        for far in ["docker.io", "localhost.example:5000", "10.0.0.1:5000", "127.0.0.1.example", "[::2]:5000"]
        {
            assert!(!is_near(far), "{far}");
        }
    }

    #[test]
    fn what_a_registry_says_is_shortened_and_made_printable() {
        let envelope = br#"{"errors":[{"code":"DENIED","message":"no\u001b[31m way"}]}"#;
        assert_eq!(quoted(envelope), "DENIED no\\u{1b}[31m way");
        assert_eq!(quoted(b""), "no reason given");
        assert_eq!(quoted(&[b'x'; 5000]).len(), QUOTED_CHARS);
    }
}
