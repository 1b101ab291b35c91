//! Messages from a hostile peer.

use agentiso_proto::{Control, Request, Response, from_bytes, to_bytes};
use proptest::prelude::*;

/// Bytes that begin like a message of a known or unknown kind.
fn like_a_message() -> impl Strategy<Value = Vec<u8>> {
    let small = prop::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..60);
    (0..0x25_u8, small).prop_map(|(kind, rest)| [vec![kind], rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn every_decoded_message_survives_a_round_trip(bytes in like_a_message()) {
        if let Ok(request) = from_bytes::<Request>(&bytes) {
            prop_assert_eq!(from_bytes::<Request>(&to_bytes(&request).unwrap()), Ok(request));
        }
        if let Ok(response) = from_bytes::<Response>(&bytes) {
            prop_assert_eq!(from_bytes::<Response>(&to_bytes(&response).unwrap()), Ok(response));
        }
        if let Ok(control) = from_bytes::<Control>(&bytes) {
            prop_assert_eq!(from_bytes::<Control>(&to_bytes(&control).unwrap()), Ok(control));
        }
    }

    #[test]
    fn a_truncated_message_is_rejected(bytes in like_a_message(), at in any::<prop::sample::Index>()) {
        if from_bytes::<Request>(&bytes).is_ok() {
            prop_assert!(from_bytes::<Request>(&bytes[..at.index(bytes.len())]).is_err());
        }
    }
}
