//! The first bytes of a connection through the egress proxy: TLS client hellos and request lines.
#![no_main]

use agentiso_net::egress::{MAX_FIRST, Sniffed, parse_client_hello, sniff};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    parse_client_hello(bytes);
    let found = sniff(bytes);
    assert!(found != Sniffed::More || bytes.len() < MAX_FIRST, "asks for more than the limit");
    // More bytes never change what was recognised.
    let half = sniff(&bytes[..bytes.len() / 2]);
    assert!(half == Sniffed::More || half == found);
});
