//! Placeholders of secrets in requests: replaced in the headers of a host that may get the secret, refused elsewhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderValue;
use memchr::memmem;
use zeroize::Zeroizing;

use super::setup::Granted;

/// Headers that say where a message goes and where it ends. No secret belongs there.
const NEVER: &[&str] =
    &["host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade"];

/// The first secret whose placeholder is in some bytes.
pub(super) fn find<'a>(secrets: &'a [Granted], bytes: &[u8]) -> Option<&'a Granted> {
    secrets.iter().find(|secret| memmem::find(bytes, secret.placeholder.as_bytes()).is_some())
}

/// The first secret whose placeholder is in a name or a value of some headers.
pub(super) fn find_in_headers<'a>(secrets: &'a [Granted], headers: &HeaderMap) -> Option<&'a Granted> {
    if secrets.is_empty() {
        return None;
    }
    headers.iter().find_map(|(name, value)| {
        let in_name = find(secrets, name.as_str().as_bytes());
        let in_value = || find(secrets, value.as_bytes());
        let in_basic = || basic(value).and_then(|decoded| find(secrets, &decoded));
        in_name.or_else(in_value).or_else(in_basic)
    })
}

/// Replaces the placeholders of the secrets that a host may get. Returns the secret of a placeholder that may not be
/// where it is; then the request must not be sent.
pub(super) fn replace<'a>(
    secrets: &'a [Granted],
    host: &str,
    headers: &mut HeaderMap,
) -> Result<(), &'a Granted> {
    for secret in secrets.iter().filter(|secret| secret.is_bound_to(host)) {
        for (name, value) in headers.iter_mut() {
            if secret.may_be_in(name) && !NEVER.contains(&name.as_str()) {
                replace_in(secret, value);
            }
        }
    }
    match find_in_headers(secrets, headers) {
        Some(misplaced) => Err(misplaced),
        None => Ok(()),
    }
}

fn replace_in(secret: &Granted, value: &mut HeaderValue) {
    let replaced = if memmem::find(value.as_bytes(), secret.placeholder.as_bytes()).is_some() {
        swapped(value.as_bytes(), secret)
    } else {
        match basic(value) {
            Some(decoded) if memmem::find(&decoded, secret.placeholder.as_bytes()).is_some() => {
                let clear = swapped(&decoded, secret);
                Zeroizing::new(format!("Basic {}", STANDARD.encode(&*clear)).into_bytes())
            }
            _ => return,
        }
    };
    // The memory is overwritten when the last copy of the header is dropped. A secret's value is checked to be one that
    // a header can have, so this does not fail; if it did, the placeholder would be found and refused.
    if let Ok(mut new) = HeaderValue::from_maybe_shared(Bytes::from_owner(replaced)) {
        // Neither shown in logs nor put into a table of HTTP/2.
        new.set_sensitive(true);
        *value = new;
    }
}

fn swapped(bytes: &[u8], secret: &Granted) -> Zeroizing<Vec<u8>> {
    let placeholder = secret.placeholder.as_bytes();
    // With its final size from the start: a vector that grows would leave copies behind.
    let count = memmem::find_iter(bytes, placeholder).count();
    let mut result = Zeroizing::new(Vec::with_capacity(bytes.len() + count * secret.value.expose().len()));
    let mut rest = bytes;
    while let Some(place) = memmem::find(rest, placeholder) {
        result.extend_from_slice(&rest[..place]);
        result.extend_from_slice(secret.value.expose().as_bytes());
        rest = &rest[place + placeholder.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// Puts placeholders back into the headers of an answer, for servers that repeat what they were sent.
pub(super) fn restore(secrets: &[Granted], headers: &mut HeaderMap) {
    for value in headers.values_mut() {
        for secret in secrets {
            if memmem::find(value.as_bytes(), secret.value.expose().as_bytes()).is_some() {
                *value = HeaderValue::from_str(&secret.placeholder)
                    .unwrap_or_else(|_| HeaderValue::from_static("***"));
            }
        }
    }
}

/// The user and password of basic authentication.
fn basic(value: &HeaderValue) -> Option<Zeroizing<Vec<u8>>> {
    let (scheme, encoded) = value.as_bytes().split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    STANDARD.decode(encoded.trim_ascii()).ok().map(Zeroizing::new)
}

/// Looks for placeholders in bytes that arrive in parts.
#[derive(Debug)]
pub(super) struct Scanner {
    /// The end of what was seen: a placeholder may continue in the next part.
    tail: Vec<u8>,
    /// Bytes that are still looked at.
    left: usize,
}

impl Scanner {
    pub(super) fn new(limit: usize) -> Self {
        Self { tail: Vec::new(), left: limit }
    }

    pub(super) fn find<'a>(&mut self, secrets: &'a [Granted], part: &[u8]) -> Option<&'a Granted> {
        if self.left == 0 || secrets.is_empty() {
            return None;
        }
        let part = &part[..part.len().min(self.left)];
        self.left -= part.len();
        let overlap = secrets.iter().map(|secret| secret.placeholder.len()).max()?.saturating_sub(1);
        // What spans both parts lies within the tail and as many bytes of the new one.
        let seam = [&self.tail[..], &part[..part.len().min(overlap)]].concat();
        let found = find(secrets, &seam).or_else(|| find(secrets, part));
        self.tail.extend_from_slice(&part[part.len().saturating_sub(overlap)..]);
        self.tail.drain(..self.tail.len().saturating_sub(overlap));
        found
    }
}

#[cfg(test)]
mod tests {
    use agentiso_core::{Secret, WorkspaceId};
    use hyper::header::HeaderName;
    use proptest::prelude::*;

    use super::*;
    use crate::egress::setup::{GrantedSecret, Proxy, ProxySetup};

    const PLACEHOLDER: &str = "aiso_placeholder_1234567890";

    fn proxy(headers: &[&str]) -> Proxy {
        let secret = GrantedSecret {
            name: "TOKEN".to_owned(),
            placeholder: PLACEHOLDER.to_owned(),
            value: Secret::new("the-real-value".to_owned()),
            hosts: vec!["api.example.com".to_owned()],
            headers: headers.iter().map(|&text| text.to_owned()).collect(),
        };
        let setup = ProxySetup { authority: None, secrets: vec![secret] };
        Proxy::open(WorkspaceId::from_uuid(uuid::Uuid::nil()), &setup).unwrap()
    }

    fn headers(name: &str, value: &str) -> HeaderMap {
        let name: HeaderName = name.parse().unwrap();
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn a_placeholder_is_replaced_for_its_host_and_refused_for_another() {
        let proxy = proxy(&[]);
        let sent = format!("Bearer {PLACEHOLDER}");
        let mut bound = headers("authorization", &sent);
        replace(&proxy.secrets, "api.example.com", &mut bound).unwrap();
        assert_eq!(bound["authorization"], "Bearer the-real-value");
        assert!(bound["authorization"].is_sensitive());
        assert!(!format!("{bound:?}").contains("the-real-value"));

        let mut other = headers("authorization", &sent);
        assert_eq!(replace(&proxy.secrets, "www.example.com", &mut other).unwrap_err().name, "TOKEN");
        assert_eq!(other["authorization"], sent.as_str(), "unchanged");
    }

    #[test]
    fn a_placeholder_in_basic_authentication_is_replaced_too() {
        let proxy = proxy(&[]);
        let sent = format!("basic {}", STANDARD.encode(format!("x-access-token:{PLACEHOLDER}")));
        let mut bound = headers("authorization", &sent);
        replace(&proxy.secrets, "api.example.com", &mut bound).unwrap();
        let expected = format!("Basic {}", STANDARD.encode("x-access-token:the-real-value"));
        assert_eq!(bound["authorization"], expected.as_str());
        assert!(find_in_headers(&proxy.secrets, &headers("authorization", &sent)).is_some());
    }

    #[test]
    fn a_secret_stays_out_of_headers_it_is_not_meant_for() {
        let proxy = proxy(&["X-Api-Key"]);
        let mut allowed = headers("x-api-key", PLACEHOLDER);
        replace(&proxy.secrets, "api.example.com", &mut allowed).unwrap();
        assert_eq!(allowed["x-api-key"], "the-real-value");
        for name in ["authorization", "host"] {
            assert!(replace(&proxy.secrets, "api.example.com", &mut headers(name, PLACEHOLDER)).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_placeholder_is_found_however_it_is_split(cuts in proptest::collection::vec(0usize..60, 0..6), before in "[a-z_]{0,20}") {
            let proxy = proxy(&[]);
            let text = format!("{before}{PLACEHOLDER}tail").into_bytes();
            let mut places: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            places.extend([0, text.len()]);
            places.sort_unstable();
            let mut scanner = Scanner::new(1000);
            let found = places.windows(2).any(|pair| scanner.find(&proxy.secrets, &text[pair[0]..pair[1]]).is_some());
            prop_assert!(found);
        }
    }

    #[test]
    fn only_the_first_bytes_are_looked_at() {
        let proxy = proxy(&[]);
        let mut scanner = Scanner::new(10);
        assert!(scanner.find(&proxy.secrets, &[b'x'; 10]).is_none());
        assert!(scanner.find(&proxy.secrets, PLACEHOLDER.as_bytes()).is_none());
    }
}
