//! Domain patterns: an exact name, or `*.` and a name for everything below it.

use std::fmt;
use std::net::IpAddr;

use super::Reason;

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// `example.com` matches that name alone; `*.example.com` matches every name below it, at any depth, but not
/// `example.com` itself.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DomainPattern {
    /// The name, in lower case and without a trailing dot.
    name: String,
    wildcard: bool,
}

impl DomainPattern {
    /// Checks a pattern as a user writes it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.is_empty() {
            return Err(Reason::Empty);
        }
        if text.contains("://") || text.contains('/') {
            return Err(if text.contains("://") { Reason::IsUrl } else { misplaced_slash(text) });
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err(Reason::IsAddress);
        }
        if matches!(text, "*" | "*.") {
            return Err(Reason::Everything);
        }
        let (wildcard, name) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if name.contains('*') {
            return Err(Reason::Wildcard);
        }
        Ok(Self { name: check_name(name)?, wildcard })
    }

    /// Whether a name (lower case, without a trailing dot) is covered.
    pub fn matches(&self, name: &str) -> bool {
        if !self.wildcard {
            return name == self.name;
        }
        name.strip_suffix(self.name.as_str()).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
    }

    /// Whether the pattern names this one host, rather than covering it with a wildcard.
    pub fn names(&self, name: &str) -> bool {
        !self.wildcard && name == self.name
    }
}

impl fmt::Display for DomainPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.name)
    }
}

/// Brings a name from a query into the form patterns are compared with.
pub fn normalise(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn misplaced_slash(text: &str) -> Reason {
    let is_range = text.split_once('/').is_some_and(|(address, _)| address.parse::<IpAddr>().is_ok());
    if is_range { Reason::IsAddress } else { Reason::IsUrl }
}

fn check_name(text: &str) -> Result<String, Reason> {
    let name = normalise(text);
    if !name.is_ascii() {
        return Err(Reason::NotAscii);
    }
    if name.len() > MAX_NAME {
        return Err(Reason::TooLong);
    }
    if name.split_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(Reason::HasPort);
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > MAX_LABEL {
            return Err(Reason::Label);
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if let Some(odd) = label.chars().find(|&c| !allowed(c)) {
            return Err(Reason::Character(odd));
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> DomainPattern {
        DomainPattern::parse(text).unwrap()
    }

    #[test]
    fn an_exact_name_matches_itself_alone() {
        let exact = pattern("Example.COM.");
        assert_eq!(exact.to_string(), "example.com");
        assert!(exact.matches("example.com"));
        assert!(!exact.matches("www.example.com"));
        assert!(!exact.matches("badexample.com"));
        assert!(exact.names("example.com"));
    }

    #[test]
    fn a_wildcard_matches_everything_below_and_not_the_name_itself() {
        let wildcard = pattern("*.example.com");
        assert_eq!(wildcard.to_string(), "*.example.com");
        assert!(wildcard.matches("www.example.com"));
        assert!(wildcard.matches("a.b.example.com"));
        assert!(!wildcard.matches("example.com"));
        assert!(!wildcard.matches("badexample.com"));
        assert!(!wildcard.matches(".example.com"));
        assert!(!wildcard.names("www.example.com"));
    }

    #[test]
    fn malformed_patterns_are_refused_with_the_reason() {
        let long_name = vec!["a".repeat(60); 5].join(".");
        let cases: &[(&str, Reason)] = &[
            ("", Reason::Empty),
            ("*", Reason::Everything),
            ("*.", Reason::Everything),
            ("a.*.com", Reason::Wildcard),
            ("w*.example.com", Reason::Wildcard),
            ("*.*.com", Reason::Wildcard),
            ("https://example.com", Reason::IsUrl),
            ("example.com/path", Reason::IsUrl),
            ("10.0.0.0/8", Reason::IsAddress),
            ("1.2.3.4", Reason::IsAddress),
            ("::1", Reason::IsAddress),
            ("example.com:443", Reason::HasPort),
            ("bücher.example", Reason::NotAscii),
            ("a..b", Reason::Label),
            (".example.com", Reason::Label),
            ("exa mple.com", Reason::Character(' ')),
            ("a\n.com", Reason::Character('\n')),
            (&long_name, Reason::TooLong),
        ];
        for (text, reason) in cases {
            assert_eq!(DomainPattern::parse(text).as_ref(), Err(reason), "{text:?}");
        }
    }
}
