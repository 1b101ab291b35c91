//! Any bytes are a query or are not; neither panics.

#![no_main]

use agentiso_net::dns::parse_query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((message, query)) = parse_query(bytes) {
        assert_eq!(message.queries.first(), Some(&query));
    }
});
