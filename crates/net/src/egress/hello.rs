//! The first message of a TLS connection, as far as it is not encrypted.

use agentiso_policy::egress::DomainPattern;

/// What a client says in its first message.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientHello {
    /// The server it wants, in normal form. With encrypted client hello, the outer name.
    pub server_name: Option<String>,
    /// The application protocols it offers, in its order.
    pub protocols: Vec<Vec<u8>>,
}

/// What the first bytes of a connection are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hello {
    /// More bytes are needed.
    Incomplete,
    /// Not the beginning of a TLS connection, or a malformed one.
    Invalid(&'static str),
    /// The whole message.
    Complete(ClientHello),
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const PROTOCOLS: u16 = 16;
/// The largest record that TLS allows.
const MAX_RECORD: usize = 16_384;
/// Protocols that are remembered.
const MAX_PROTOCOLS: usize = 32;

/// Reads a client hello from the first bytes of a connection. It may be spread over several records.
pub fn parse_client_hello(bytes: &[u8]) -> Hello {
    let mut message = Vec::new();
    let mut rest = Reader(bytes);
    loop {
        match rest.0.first() {
            None => return Hello::Incomplete,
            Some(&HANDSHAKE) => {}
            Some(_) => return Hello::Invalid("not a TLS handshake"),
        }
        if rest.0.get(1).is_some_and(|&major| major != 3) {
            return Hello::Invalid("not a TLS version");
        }
        let Some(header) = rest.take(5) else { return Hello::Incomplete };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 || length > MAX_RECORD {
            return Hello::Invalid("a TLS record of a wrong length");
        }
        let available = length.min(rest.0.len());
        message.extend_from_slice(&rest.0[..available]);
        if message.first().is_some_and(|&kind| kind != CLIENT_HELLO) {
            return Hello::Invalid("not a TLS client hello");
        }
        if let [_, high, middle, low, body @ ..] = &message[..] {
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            if let Some(body) = body.get(..length) {
                return match hello(Reader(body)) {
                    Some(hello) => Hello::Complete(hello),
                    None => Hello::Invalid("a malformed TLS client hello"),
                };
            }
        }
        if available < length {
            return Hello::Incomplete;
        }
        rest.0 = &rest.0[available..];
    }
}

fn hello(mut body: Reader<'_>) -> Option<ClientHello> {
    body.take(2 + 32)?;
    body.prefixed_u8()?;
    body.prefixed_u16()?;
    body.prefixed_u8()?;
    let mut found = ClientHello::default();
    if body.0.is_empty() {
        return Some(found);
    }
    let mut extensions = body.prefixed_u16()?;
    let mut seen = Vec::new();
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.prefixed_u16()?;
        if [SERVER_NAME, PROTOCOLS].contains(&kind) {
            if seen.contains(&kind) {
                return None;
            }
            seen.push(kind);
        }
        match kind {
            SERVER_NAME => found.server_name = Some(server_name(content)?),
            PROTOCOLS => found.protocols = protocols(content)?,
            _ => {}
        }
    }
    body.0.is_empty().then_some(found)
}

/// The one host name of the extension. Several names, or one that is no host name, are malformed.
fn server_name(mut content: Reader<'_>) -> Option<String> {
    let mut list = content.prefixed_u16()?;
    let kind = list.u8()?;
    let name = list.prefixed_u16()?;
    if kind != 0 || !list.0.is_empty() || !content.0.is_empty() {
        return None;
    }
    host_name(std::str::from_utf8(name.0).ok()?)
}

/// A host name in normal form; nothing for an address, a wildcard or anything else.
pub(super) fn host_name(text: &str) -> Option<String> {
    if text.starts_with('*') {
        return None;
    }
    DomainPattern::parse(text).ok().map(|name| name.to_string())
}

fn protocols(mut content: Reader<'_>) -> Option<Vec<Vec<u8>>> {
    let mut list = content.prefixed_u16()?;
    let mut found = Vec::new();
    while !list.0.is_empty() {
        let name = list.prefixed_u8()?;
        if name.0.is_empty() {
            return None;
        }
        if found.len() < MAX_PROTOCOLS {
            found.push(name.0.to_vec());
        }
    }
    Some(found)
}

/// Reads from the front; nothing if there is too little.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn prefixed_u8(&mut self) -> Option<Self> {
        let length = usize::from(self.u8()?);
        self.take(length).map(Reader)
    }

    fn prefixed_u16(&mut self) -> Option<Self> {
        let length = usize::from(self.u16()?);
        self.take(length).map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn prefixed(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn name_extension(names: &[(u8, &str)]) -> Vec<u8> {
        let list: Vec<u8> =
            names.iter().flat_map(|(kind, name)| [vec![*kind], prefixed(name.as_bytes())].concat()).collect();
        [&0u16.to_be_bytes()[..], &prefixed(&prefixed(&list))].concat()
    }

    fn message(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(prefixed(extensions));
        let length = (body.len() as u32).to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }

    /// A message in records of at most this many bytes.
    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [vec![22, 3, 1], prefixed(part)].concat()).collect()
    }

    fn named(name: &str) -> Hello {
        Hello::Complete(ClientHello { server_name: Some(name.to_owned()), protocols: Vec::new() })
    }

    #[test]
    fn the_name_and_the_protocols_are_found_in_one_record_or_several() {
        let protocols = [&16u16.to_be_bytes()[..], &prefixed(&prefixed(b"\x02h2\x08http/1.1"))].concat();
        let message = message(&[name_extension(&[(0, "API.example.com.")]), protocols].concat());
        for size in [1, 2, 3, 50, 10_000] {
            let Hello::Complete(hello) = parse_client_hello(&records(&message, size)) else {
                panic!("records of {size} bytes");
            };
            assert_eq!(hello.server_name.as_deref(), Some("api.example.com"));
            assert_eq!(hello.protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        }
    }

    #[test]
    fn a_hello_without_a_name_is_complete() {
        assert_eq!(parse_client_hello(&records(&message(&[]), 999)), Hello::Complete(ClientHello::default()));
    }

    #[test]
    fn malformed_hellos_are_refused() {
        let invalid = |bytes: &[u8]| matches!(parse_client_hello(bytes), Hello::Invalid(_));
        for names in [
            &[(0, "a.example"), (0, "b.example")][..],
            &[(1, "a.example")],
            &[(0, "10.0.0.1")],
            &[(0, "*.example")],
            &[(0, "a example")],
            &[(0, "")],
        ] {
            assert!(invalid(&records(&message(&name_extension(names)), 999)), "{names:?}");
        }
        let twice = [name_extension(&[(0, "a.example")]), name_extension(&[(0, "a.example")])].concat();
        assert!(invalid(&records(&message(&twice), 999)));
        assert!(invalid(b"GET / HTTP/1.1\r\n"));
        assert!(invalid(&[22, 3, 1, 0, 0]));
        assert!(invalid(&[22, 3, 1, 0x40, 1]));
        assert!(invalid(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), "a server hello");
        assert!(invalid(&[22, 2, 0]), "SSL 2");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..200), size in 1usize..100) {
            parse_client_hello(&bytes);
            parse_client_hello(&records(&bytes, size));
            parse_client_hello(&records(&message(&bytes), size));
        }

        #[test]
        fn every_part_of_a_hello_is_incomplete(cut in 0usize..1000, size in 1usize..300) {
            let bytes = records(&message(&name_extension(&[(0, "a.example")])), size);
            let cut = cut % bytes.len();
            prop_assert_eq!(parse_client_hello(&bytes[..cut]), Hello::Incomplete);
            prop_assert_eq!(parse_client_hello(&bytes), named("a.example"));
        }

        #[test]
        fn a_changed_byte_never_gives_a_panic(place in 0usize..200, value: u8) {
            let mut bytes = records(&message(&name_extension(&[(0, "a.example")])), 40);
            let place = place % bytes.len();
            bytes[place] = value;
            parse_client_hello(&bytes);
        }
    }
}
