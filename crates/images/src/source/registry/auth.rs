//! Authentication after a 401 response: a token from the named issuer, or the login itself.

use base64::Engine as _;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Client, Url};
use serde::Deserialize;

use super::answer::read_all;
use super::client::{Fault, is_loopback};
use super::login::Login;

const TOKEN_MAX: u64 = 256 << 10;

/// A supported challenge.
#[derive(Debug, Eq, PartialEq)]
enum Challenge {
    Bearer { realm: String, service: Option<String> },
    Basic,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

/// The value of the `Authorization` header that meets the challenge in `headers`, for reading `repository`.
pub(super) async fn authorise(
    http: &Client,
    headers: &HeaderMap,
    repository: &str,
    login: Option<&Login>,
) -> Result<String, Fault> {
    match (challenge(headers), login) {
        (Some(Challenge::Bearer { realm, service }), login) => {
            let url = token_url(&realm, service.as_deref(), repository)?;
            let mut request = http.get(url);
            if let Some(login) = login {
                request = request.basic_auth(&login.user, Some(&login.password));
            }
            let answer = request.send().await?;
            if !answer.status().is_success() {
                return Err(Fault::Login);
            }
            let bytes = read_all(answer, TOKEN_MAX, "token").await?;
            let token: Token = serde_json::from_slice(&bytes)
                .map_err(|error| Fault::Nonsense { what: "token", reason: error.to_string() })?;
            let token = token.token.or(token.access_token).filter(|token| !token.is_empty());
            Ok(format!("Bearer {}", token.ok_or(Fault::Login)?))
        }
        (Some(Challenge::Basic), Some(Login { user, password })) => {
            let plain = format!("{user}:{password}");
            Ok(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(plain)))
        }
        (Some(Challenge::Basic), None) | (None, _) => Err(Fault::Login),
    }
}

/// The URL of the token issuer. Plain HTTP is allowed only for this machine, because a login may be sent.
fn token_url(realm: &str, service: Option<&str>, repository: &str) -> Result<Url, Fault> {
    let nonsense = |reason: &str| Fault::Nonsense { what: "token issuer", reason: reason.to_owned() };
    let mut url = Url::parse(realm).map_err(|error| nonsense(&error.to_string()))?;
    let is_near = url.scheme() == "http" && url.host_str().is_some_and(is_loopback);
    if url.scheme() != "https" && !is_near {
        return Err(nonsense("its address must begin with https"));
    }
    let mut query = url.query_pairs_mut();
    query.append_pair("scope", &format!("repository:{repository}:pull"));
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    drop(query);
    Ok(url)
}

/// The first supported challenge; tokens are preferred.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let mut found = None;
    for value in headers.get_all(WWW_AUTHENTICATE) {
        let Ok(text) = value.to_str() else { continue };
        for offered in http_auth::ChallengeParser::new(text).flatten() {
            let param = |name: &str| {
                let value = offered.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                value.map(|(_, value)| value.to_unescaped())
            };
            if offered.scheme.eq_ignore_ascii_case("Bearer") {
                if let Some(realm) = param("realm") {
                    return Some(Challenge::Bearer { realm, service: param("service") });
                }
            } else if offered.scheme.eq_ignore_ascii_case("Basic") {
                found = Some(Challenge::Basic);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(values: &[&'static str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        challenge(&headers)
    }

    #[test]
    fn a_token_is_preferred_and_nonsense_is_no_challenge() {
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("r.example".to_owned()),
        };
        let text = r#"Bearer realm="https://auth.example/token",service="r.example",scope="x""#;
        assert_eq!(offered(&["Basic realm=\"x\"", text]), Some(bearer));
        assert_eq!(offered(&["Basic realm=\"x\""]), Some(Challenge::Basic));
        assert_eq!(offered(&["Bearer service=\"x\"", "Digest realm=\"x\"", "=,"]), None);
        assert_eq!(offered(&[]), None);
    }

    #[test]
    fn a_login_goes_only_to_https_or_to_this_machine() {
        let url = token_url("https://auth.example/token?a=b", Some("r.example"), "team/app").unwrap();
        let whole = "https://auth.example/token?a=b&scope=repository%3Ateam%2Fapp%3Apull&service=r.example";
        assert_eq!(url.as_str(), whole);
        assert!(token_url("http://127.0.0.1:5001/token", None, "app").is_ok());
        for realm in ["http://auth.example/token", "file:///etc/passwd", "nonsense", ""] {
            assert!(matches!(token_url(realm, None, "app"), Err(Fault::Nonsense { .. })), "{realm}");
        }
    }
}
