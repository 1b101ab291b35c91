//! Finding the Welcome that answers a given Hello.

use agentiso_proto::{Decoder, Event, Hello, Inherit, VERSION_MAX, VERSION_MIN, Welcome, WelcomeScanner};
use proptest::prelude::*;

/// Feeds the chunks and returns the Welcome with everything that follows it.
fn scan(nonce: [u8; 16], pieces: &[&[u8]]) -> Option<(Welcome, Vec<u8>)> {
    let mut scanner = WelcomeScanner::new(nonce);
    for (index, piece) in pieces.iter().enumerate() {
        let mut input = *piece;
        if let Some(welcome) = scanner.next(&mut input) {
            let rest =
                pieces[index + 1..].iter().fold(input.to_vec(), |rest, piece| [&rest, *piece].concat());
            return Some((welcome, rest));
        }
        assert!(input.is_empty(), "a scanner that found nothing consumes all input");
    }
    None
}

/// Splits bytes at the given positions.
fn cut<'a>(bytes: &'a [u8], places: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
    places.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for place in places {
        pieces.push(&bytes[from..place]);
        from = place;
    }
    pieces.push(&bytes[from..]);
    pieces
}

fn welcome(nonce: [u8; 16]) -> Welcome {
    Hello::new(nonce, Inherit::Keep).answer()
}

#[test]
fn a_welcome_for_another_hello_is_skipped() {
    let bytes = [&welcome([1; 16]).encode()[..], &welcome([2; 16]).encode()[..], b"frames"].concat();
    assert_eq!(scan([2; 16], &[&bytes]), Some((welcome([2; 16]), b"frames".to_vec())));
    assert_eq!(scan([3; 16], &[&bytes]), None);
}

#[test]
fn a_truncated_welcome_before_a_complete_one_is_skipped() {
    let mut nonce = [0; 16];
    nonce[15] = welcome(nonce).encode()[0];
    let bytes = [&welcome(nonce).encode()[..31], &welcome(nonce).encode()[..], b"frames"].concat();
    for split in 0..bytes.len() {
        let (head, tail) = bytes.split_at(split);
        assert_eq!(scan(nonce, &[head, tail]), Some((welcome(nonce), b"frames".to_vec())), "{split}");
    }
}

#[test]
fn the_newest_common_version_is_negotiated() {
    let hello = |min, max| Hello { min, max, ..Hello::new([0; 16], Inherit::Keep) };
    assert_eq!(hello(VERSION_MIN, VERSION_MAX).answer().version, VERSION_MAX);
    assert_eq!(hello(VERSION_MIN, VERSION_MAX + 9).answer().version, VERSION_MAX);
    assert_eq!(hello(VERSION_MAX + 1, VERSION_MAX + 9).answer().version, 0);
    assert_eq!(hello(0, VERSION_MIN - 1).answer().version, 0);
    assert_eq!(hello(9, 2).answer().version, 0);
}

#[test]
fn a_hello_with_an_unknown_inherit_mode_is_rejected() {
    let mut bytes = Hello::new([1; 16], Inherit::Keep).encode();
    bytes[20] = 3;
    let event = Decoder::new().next(&mut &bytes[..]);
    assert!(matches!(event, Some(Event::Lost(_))), "{event:?}");
}

proptest! {
    #[test]
    fn the_welcome_is_found_after_stale_bytes_in_chunks_of_any_size(
        nonce: [u8; 16],
        stale in prop::collection::vec(any::<u8>(), 0..300),
        torn in 0..32_usize,
        following in prop::collection::vec(any::<u8>(), 0..100),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let welcome = welcome(nonce);
        let bytes = [&stale[..], &welcome.encode()[..torn], &welcome.encode()[..], &following[..]].concat();
        prop_assert_eq!(scan(nonce, &cut(&bytes, &places)), Some((welcome, following)));
    }

    #[test]
    fn a_hello_survives_a_round_trip(nonce: [u8; 16], min: u16, max: u16, way in 0..3_usize) {
        let inherit = [Inherit::Keep, Inherit::Kill, Inherit::Held][way];
        let hello = Hello { min, max, inherit, nonce };
        prop_assert_eq!(Decoder::new().next(&mut &hello.encode()[..]), Some(Event::Hello(hello)));
    }
}
