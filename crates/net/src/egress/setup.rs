//! What the proxy needs to know of a workspace beyond its rules: its authority and its secrets.

use agentiso_core::{Code, Explain, Secret, WorkspaceId};
use agentiso_policy::egress::DomainPattern;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::authority::{Authority, AuthorityError};

const MAX_SECRETS: usize = 64;
const MAX_HOSTS: usize = 64;
const MAX_HEADERS: usize = 16;
const MAX_VALUE: usize = 16 * 1024;
const MIN_PLACEHOLDER: usize = 16;
const MAX_PLACEHOLDER: usize = 128;

/// The authority and the secrets of a workspace. Holds private values: it is sent over the control socket and never
/// returned, logged or kept.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProxySetup {
    /// The authority, whose certificate the guest trusts. Without it nothing can be decrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<AuthorityKey>,
    /// The secrets it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<GrantedSecret>,
}

/// A certificate authority.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorityKey {
    /// Its certificate, in PEM: what the guest trusts.
    pub certificate: String,
    /// Its private key, in PEM: never leaves the host.
    pub key: Secret<String>,
}

/// A secret that a workspace may use without seeing it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedSecret {
    /// Its name.
    pub name: String,
    /// What the guest holds and sends instead.
    pub placeholder: String,
    /// What the server gets.
    pub value: Secret<String>,
    /// The hosts that may get it: `api.example.com`, `*.example.com`.
    pub hosts: Vec<String>,
    /// The headers it may be in. Default: every header.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
}

/// A setup that cannot be used. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An entry of a secret is wrong.
    #[error("secret '{name}': {what}")]
    Secret {
        /// Which secret.
        name: String,
        /// What is wrong, without the value.
        what: String,
    },
    /// Too many secrets.
    #[error("a workspace can use at most {MAX_SECRETS} secrets")]
    TooMany,
    /// The authority's key cannot be read.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

impl Explain for SetupError {
    fn code(&self) -> Code {
        match self {
            Self::Secret { .. } | Self::TooMany => Code::InvalidArgument,
            Self::Authority(_) => Code::Internal,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Secret { .. } => Some("set the secret again".to_owned()),
            Self::TooMany => Some("grant fewer secrets".to_owned()),
            Self::Authority(_) => None,
        }
    }
}

/// A setup as it is applied.
#[derive(Debug, Default)]
pub(crate) struct Proxy {
    pub(super) authority: Option<Authority>,
    pub(super) secrets: Vec<Granted>,
}

/// A checked secret.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) name: String,
    pub(super) placeholder: String,
    pub(super) value: Secret<String>,
    hosts: Vec<DomainPattern>,
    headers: Vec<HeaderName>,
}

impl Granted {
    pub(super) fn is_bound_to(&self, host: &str) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(host))
    }

    pub(super) fn may_be_in(&self, header: &HeaderName) -> bool {
        self.headers.is_empty() || self.headers.contains(header)
    }
}

impl Proxy {
    pub(crate) fn open(workspace: WorkspaceId, setup: &ProxySetup) -> Result<Self, SetupError> {
        if setup.secrets.len() > MAX_SECRETS {
            return Err(SetupError::TooMany);
        }
        let authority = match &setup.authority {
            Some(key) => Some(Authority::open(workspace, key)?),
            None => None,
        };
        let secrets = setup.secrets.iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { authority, secrets })
    }

    /// Whether a connection to a host has to be decrypted for a secret.
    pub(crate) fn has_secret_for(&self, host: &str) -> bool {
        self.secrets.iter().any(|secret| secret.is_bound_to(host))
    }
}

/// Checks a secret before it is kept.
pub fn check_secret(secret: &GrantedSecret) -> Result<(), SetupError> {
    check(secret).map(|_| ())
}

fn check(secret: &GrantedSecret) -> Result<Granted, SetupError> {
    let wrong = |what: &str| SetupError::Secret { name: secret.name.clone(), what: what.to_owned() };
    let length = secret.placeholder.len();
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if !(MIN_PLACEHOLDER..=MAX_PLACEHOLDER).contains(&length) || !secret.placeholder.bytes().all(is_plain) {
        return Err(wrong("its placeholder is malformed"));
    }
    let value = secret.value.expose();
    if value.is_empty() || value.len() > MAX_VALUE || HeaderValue::from_str(value).is_err() {
        return Err(wrong("its value cannot be in a header"));
    }
    if secret.hosts.is_empty() || secret.hosts.len() > MAX_HOSTS || secret.headers.len() > MAX_HEADERS {
        return Err(wrong("it has no host, or too many hosts or headers"));
    }
    let host =
        |text: &String| DomainPattern::parse(text).map_err(|reason| wrong(&format!("'{text}' {reason}")));
    let header = |text: &String| {
        text.to_ascii_lowercase().parse().map_err(|_| wrong(&format!("'{text}' is not the name of a header")))
    };
    Ok(Granted {
        name: secret.name.clone(),
        placeholder: secret.placeholder.clone(),
        value: secret.value.clone(),
        hosts: secret.hosts.iter().map(host).collect::<Result<_, _>>()?,
        headers: secret.headers.iter().map(header).collect::<Result<_, _>>()?,
    })
}
