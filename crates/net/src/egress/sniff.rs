//! What the first bytes of a connection are.

use super::hello::{ClientHello, Hello, parse_client_hello};

/// First bytes that are kept until it is clear what they are.
pub const MAX_FIRST: usize = 32 * 1024;
/// The longest method that is taken for one.
const MAX_METHOD: usize = 32;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What the first bytes are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Sniffed {
    /// More bytes are needed.
    More,
    /// A TLS client hello.
    Tls(ClientHello),
    /// A request of HTTP/1.
    Http1,
    /// The preface of HTTP/2, without TLS.
    Http2,
    /// Something else.
    Other(&'static str),
}

/// Recognises TLS and HTTP. Never asks for more than [`MAX_FIRST`] bytes.
pub fn sniff(bytes: &[u8]) -> Sniffed {
    let is_full = bytes.len() >= MAX_FIRST;
    match bytes.first() {
        None => Sniffed::More,
        Some(22) => match parse_client_hello(bytes) {
            Hello::Complete(hello) => Sniffed::Tls(hello),
            Hello::Invalid(reason) => Sniffed::Other(reason),
            Hello::Incomplete if is_full => Sniffed::Other("a TLS client hello that is too long"),
            Hello::Incomplete => Sniffed::More,
        },
        Some(_) if bytes.starts_with(PREFACE) => Sniffed::Http2,
        Some(_) if PREFACE.starts_with(bytes) => Sniffed::More,
        Some(_) => http1(bytes, is_full),
    }
}

/// A request line: a method, a target, and the version at its end.
fn http1(bytes: &[u8], is_full: bool) -> Sniffed {
    const OTHER: Sniffed = Sniffed::Other("neither TLS nor HTTP");
    let method = bytes.iter().take(MAX_METHOD + 1).take_while(|byte| byte.is_ascii_uppercase()).count();
    match bytes.get(method) {
        None if method <= MAX_METHOD => return Sniffed::More,
        Some(b' ') if (1..=MAX_METHOD).contains(&method) => {}
        _ => return OTHER,
    }
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
        let is_text = bytes.iter().all(|&byte| byte >= b' ' && byte != 0x7f || byte == b'\r');
        return match (is_text, is_full) {
            (false, _) => OTHER,
            (true, false) => Sniffed::More,
            // The server of HTTP answers that it is too long.
            (true, true) => Sniffed::Http1,
        };
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let has_version = [&b" HTTP/1.1"[..], b" HTTP/1.0"].iter().any(|version| line.ends_with(version));
    if has_version { Sniffed::Http1 } else { OTHER }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn http_is_recognised_by_its_first_line() {
        for text in [
            "GET / HTTP/1.1\r\n",
            "POST http://a.example/ HTTP/1.0\n",
            "CONNECT a.example:443 HTTP/1.1\r\nHost",
        ] {
            assert_eq!(sniff(text.as_bytes()), Sniffed::Http1, "{text}");
        }
        assert_eq!(sniff(PREFACE), Sniffed::Http2);
        for text in ["", "G", "GET", "GET /", "PRI * HT", "PRI * HTTP/2.0\r\n\r\n"] {
            assert_eq!(sniff(text.as_bytes()), Sniffed::More, "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "SSH-2.0-x\r\n",
            "get / HTTP/1.1\r\n",
            " GET",
            "GET /\r\n",
            "GET / HTTP/2.0\r\n",
            "\0\0",
            "EHLO a\r\n",
        ] {
            assert!(matches!(sniff(text.as_bytes()), Sniffed::Other(_)), "{text:?}");
        }
        assert!(matches!(sniff(&[b'A'; 40]), Sniffed::Other(_)));
    }

    #[test]
    fn no_more_than_the_limit_is_asked_for() {
        let mut long = b"GET /".to_vec();
        long.resize(MAX_FIRST, b'a');
        assert_eq!(sniff(&long[..MAX_FIRST - 1]), Sniffed::More);
        assert_eq!(sniff(&long), Sniffed::Http1);
        let mut hello: Vec<u8> = [&[22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; 16_380]].concat();
        hello.extend([&[22, 3, 1, 0x40, 0][..], &[0; 16_384]].concat());
        assert!(matches!(sniff(&hello), Sniffed::Other(_)), "{:?}", sniff(&hello));
    }

    proptest! {
        #[test]
        fn any_bytes_are_recognised_and_more_bytes_do_not_change_it(bytes in vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let early = sniff(&bytes[..cut]);
            prop_assert!(early == Sniffed::More || early == sniff(&bytes));
        }
    }
}
