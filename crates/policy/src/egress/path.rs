//! Paths of requests, and the patterns they are compared with.

use super::Reason;

const MAX_PATTERN: usize = 1024;

/// `/v1` matches `/v1` and everything below it, but not `/v10`. `*` matches any part of one segment, `**` anything.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathPattern(String);

impl PathPattern {
    /// Checks a pattern as a user writes it.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.is_empty() {
            return Err(Reason::Empty);
        }
        if !text.starts_with('/') || text.len() > MAX_PATTERN {
            return Err(Reason::NotAPath);
        }
        match Path::parse(text) {
            // Written in another form it would never match: paths are compared in this one.
            Some(path) if path.literal == text => Ok(Self(text.to_owned())),
            _ => Err(Reason::NotAPath),
        }
    }

    /// Whether the pattern covers a path.
    fn covers(&self, path: &str) -> bool {
        matches(self.0.trim_end_matches('/').as_bytes(), path.as_bytes())
    }

    /// Whether the pattern covers a path in every way a server can read it.
    pub(super) fn covers_surely(&self, path: &Path) -> bool {
        self.covers(&path.literal) && self.covers(&path.decoded)
    }

    /// Whether the pattern covers a path in some way a server can read it.
    pub(super) fn covers_possibly(&self, path: &Path) -> bool {
        self.covers(&path.literal) || self.covers(&path.decoded)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A path that means the same to every server, except for encoded slashes: some servers take them for slashes, others
/// for a part of a segment.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Path {
    /// With encoded slashes as `%2F`.
    literal: String,
    /// With encoded slashes as slashes.
    decoded: String,
}

impl Path {
    /// Brings a path, without its query, into the form that patterns are compared with. Nothing if servers could read it
    /// in different ways: dot segments, empty segments, backslashes, control characters, wrong percent signs.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut literal = String::with_capacity(text.len());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            let (byte, is_encoded) = match byte {
                b'%' => (hex(bytes.next()?)? << 4 | hex(bytes.next()?)?, true),
                other => (other, false),
            };
            let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            match byte {
                b'\\' | b'?' | b'#' | 0x00..=0x20 | 0x7f if !is_encoded => return None,
                b'\\' | 0x00..=0x1f | 0x7f => return None,
                _ if is_encoded && !is_plain => literal.push_str(&format!("%{byte:02X}")),
                _ if byte.is_ascii() => literal.push(char::from(byte)),
                _ => literal.push_str(&format!("%{byte:02X}")),
            }
        }
        let decoded = literal.replace("%2F", "/");
        let body = decoded.strip_prefix('/')?;
        let mut segments = body.split('/').peekable();
        while let Some(segment) = segments.next() {
            // Parameters behind a semicolon are cut off by some servers before they look for dot segments.
            let name = segment.split([';']).next().unwrap_or_default();
            let is_last = segments.peek().is_none();
            if matches!(name, "." | "..") || (segment.is_empty() && !is_last) || segment.contains("%3B") {
                return None;
            }
        }
        Some(Self { literal, decoded })
    }
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether a pattern matches a path, or the part of it in front of a slash. Takes at most pattern times path steps.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    // The places in the path that the part of the pattern before can end at.
    let mut ends = vec![false; path.len() + 1];
    ends[0] = true;
    let mut index = 0;
    while index < pattern.len() {
        let is_deep = pattern[index..].starts_with(b"**");
        let is_wild = pattern[index] == b'*';
        let mut next = vec![false; path.len() + 1];
        for place in 0..=path.len() {
            if is_wild {
                let grown = place > 0 && next[place - 1] && (is_deep || path[place - 1] != b'/');
                next[place] = ends[place] || grown;
            } else {
                next[place] = place > 0 && ends[place - 1] && path[place - 1] == pattern[index];
            }
        }
        ends = next;
        index += if is_deep { 2 } else { 1 };
    }
    (0..=path.len()).any(|place| ends[place] && (place == path.len() || path[place] == b'/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn covers(pattern: &str, path: &str) -> bool {
        PathPattern::parse(pattern).unwrap().covers_surely(&Path::parse(path).unwrap())
    }

    #[test]
    fn a_pattern_covers_whole_segments() {
        for (pattern, path, expected) in [
            ("/", "/", true),
            ("/", "/anything/at/all", true),
            ("/v1", "/v1", true),
            ("/v1", "/v1/", true),
            ("/v1/", "/v1/chat", true),
            ("/v1", "/v10", false),
            ("/v1", "/v2/v1", false),
            ("/repos/*/issues", "/repos/a/issues", true),
            ("/repos/*/issues", "/repos/a/issues/7", true),
            ("/repos/*/issues", "/repos/a/b/issues", false),
            ("/repos/**/issues", "/repos/a/b/issues", true),
            ("/files/*.txt", "/files/a.txt", true),
            ("/files/*.txt", "/files/a.bin", false),
            ("/v1", "/%76%31/x", true),
            ("/v1", "/V1", false),
        ] {
            assert_eq!(covers(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn a_path_that_servers_read_differently_is_not_accepted() {
        for path in [
            "",
            "v1",
            "*",
            "/a/../b",
            "/a/./b",
            "/a/%2e%2e/b",
            "/a/.%2E",
            "//a",
            "/a//b",
            "/a\\b",
            "/a%5cb",
            "/a%00",
            "/a%2f..%2fb",
            "/a/..;x=1/b",
            "/a%3B/b",
            "/a%",
            "/a%zz",
            "/a b",
        ] {
            assert_eq!(Path::parse(path), None, "{path}");
        }
    }

    #[test]
    fn an_encoded_slash_is_a_slash_only_to_the_disadvantage_of_the_request() {
        let path = Path::parse("/a%2fb").unwrap();
        let pattern = |text| PathPattern::parse(text).unwrap();
        assert!(pattern("/a/b").covers_possibly(&path), "a deny rule applies");
        assert!(!pattern("/a/b").covers_surely(&path), "an allow rule does not");
        assert!(pattern("/**").covers_surely(&path));
    }

    #[test]
    fn patterns_that_can_never_match_are_refused() {
        for text in ["v1", "/a/../b", "/%61", "/a b", "/a?b"] {
            assert_eq!(PathPattern::parse(text), Err(Reason::NotAPath), "{text}");
        }
        assert_eq!(PathPattern::parse(""), Err(Reason::Empty));
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_not(text in ".{0,60}", pattern in "[/a*.%]{0,12}") {
            let (path, pattern) = (Path::parse(&text), PathPattern::parse(&pattern));
            if let (Some(path), Ok(pattern)) = (path, pattern) {
                prop_assert!(!pattern.covers_surely(&path) || pattern.covers_possibly(&path));
            }
        }

        #[test]
        fn a_normal_path_stays_as_it_is(text in "(/[a-z%2F.~ ;]{1,6}){1,4}") {
            if let Some(path) = Path::parse(&text) {
                let again = Path::parse(&path.literal);
                prop_assert_eq!(again, Some(path));
            }
        }
    }
}
