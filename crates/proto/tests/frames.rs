//! Decoding of frames that arrive in chunks, truncated or corrupted.

use agentiso_proto::{
    Channel, Decoder, Event, Frame, FrameError, HEADER_LEN, HELLO_LEN, Hello, Inherit, Kind, MAX_PAYLOAD,
    OVERHEAD, RESYNC_PADDING, encode,
};
use proptest::prelude::*;

const KINDS: [Kind; 9] = [
    Kind::Request,
    Kind::Response,
    Kind::Data,
    Kind::Eof,
    Kind::Credit,
    Kind::Cancel,
    Kind::Control,
    Kind::Ping,
    Kind::Pong,
];

fn any_frame() -> impl Strategy<Value = Frame> {
    let kind = prop::sample::select(&KINDS[..]);
    let channel = prop::sample::select(&[Channel::Main, Channel::Stdout, Channel::Stderr][..]);
    let payload = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..200),
        1 => prop::collection::vec(any::<u8>(), 4000..5000),
        // Payloads that contain what a decoder searches for.
        1 => Just(Hello::new([3; 16], Inherit::Keep).encode().to_vec()),
        1 => Just(vec![0; 300]),
    ];
    (kind, channel, any::<bool>(), any::<u32>(), payload)
        .prop_map(|(kind, channel, last, stream, payload)| Frame { kind, channel, last, stream, payload })
}

fn bytes_of(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        encode(frame.kind, frame.channel, frame.last, frame.stream, &frame.payload, &mut out);
    }
    out
}

fn decode(decoder: &mut Decoder, mut input: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = decoder.next(&mut input) {
        assert!(decoder.wanted() <= MAX_PAYLOAD + 1);
        events.push(event);
    }
    assert!(input.is_empty(), "a decoder that returns no event consumes all input");
    events
}

fn hello() -> Hello {
    Hello::new([7; 16], Inherit::Kill)
}

/// The events expected from a Hello on.
fn session(frames: &[Frame]) -> Vec<Event> {
    std::iter::once(Event::Hello(hello())).chain(frames.iter().cloned().map(Event::Frame)).collect()
}

#[test]
fn the_longest_payload_is_accepted_and_one_byte_more_is_rejected() {
    let frame = Frame {
        kind: Kind::Data,
        channel: Channel::Main,
        last: false,
        stream: 1,
        payload: vec![1; MAX_PAYLOAD],
    };
    let mut bytes = bytes_of(std::slice::from_ref(&frame));
    assert_eq!(bytes.len(), MAX_PAYLOAD + OVERHEAD);
    assert_eq!(decode(&mut Decoder::new(), &bytes), [Event::Frame(frame)]);
    bytes[8..12].copy_from_slice(&(MAX_PAYLOAD as u32 + 1).to_le_bytes());
    let mut decoder = Decoder::new();
    let lost = decoder.next(&mut &bytes[..HEADER_LEN]);
    assert_eq!(lost, Some(Event::Lost(FrameError::TooLong(MAX_PAYLOAD as u32 + 1))));
}

#[test]
fn headers_with_unknown_values_are_rejected() {
    for (at, value, error) in [
        (0, 10, FrameError::Kind(10)),
        (0, 0xff, FrameError::Kind(0xff)),
        (1, 3, FrameError::Channel(3)),
        (2, 2, FrameError::Flags),
        (3, 1, FrameError::Flags),
        (HEADER_LEN, 0, FrameError::Trailer),
    ] {
        let mut bytes = Vec::new();
        encode(Kind::Ping, Channel::Main, false, 1, &[], &mut bytes);
        bytes[at] = value;
        assert_eq!(decode(&mut Decoder::new(), &bytes), [Event::Lost(error)]);
    }
}

#[test]
fn after_an_error_frames_are_ignored_until_a_hello() {
    let mut decoder = Decoder::searching();
    let mut bytes = Vec::new();
    encode(Kind::Ping, Channel::Main, false, 1, &[], &mut bytes);
    assert_eq!(decode(&mut decoder, &bytes), []);
    assert_eq!(decode(&mut decoder, &hello().encode()), [Event::Hello(hello())]);
    assert_eq!(decode(&mut decoder, &bytes).len(), 1);
}

#[test]
fn a_new_hello_at_a_boundary_starts_a_new_session() {
    let bytes = [hello().encode(), hello().encode()].concat();
    assert_eq!(decode(&mut Decoder::new(), &bytes), [Event::Hello(hello()), Event::Hello(hello())]);
}

proptest! {
    #[test]
    fn frames_decode_the_same_in_chunks_of_any_size(
        frames in prop::collection::vec(any_frame(), 0..8),
        padding in 0..40_usize,
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
    ) {
        // Zeros between frames are padding.
        let mut bytes = Vec::new();
        for frame in &frames {
            bytes.resize(bytes.len() + padding, 0);
            bytes.extend(bytes_of(std::slice::from_ref(frame)));
        }
        let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        let mut decoder = Decoder::new();
        let events: Vec<Event> =
            places.windows(2).flat_map(|cut| decode(&mut decoder, &bytes[cut[0]..cut[1]])).collect();
        prop_assert_eq!(events, frames.into_iter().map(Event::Frame).collect::<Vec<_>>());
    }

    #[test]
    fn garbage_never_produces_an_oversized_frame(garbage in prop::collection::vec(any::<u8>(), 0..2000)) {
        for decoder in [&mut Decoder::new(), &mut Decoder::searching()] {
            for event in decode(decoder, &garbage) {
                if let Event::Frame(frame) = event {
                    prop_assert!(frame.payload.capacity() <= MAX_PAYLOAD);
                }
            }
        }
    }

    #[test]
    fn a_hello_behind_garbage_and_padding_is_always_found(
        // Bytes that get further into a header than random ones.
        garbage in prop::collection::vec(prop_oneof![0..10_u8, Just(0xa7), Just(0x5a), any::<u8>()], 0..400),
        frames in prop::collection::vec(any_frame(), 0..4),
    ) {
        let mut decoder = Decoder::new();
        decode(&mut decoder, &garbage);
        decode(&mut decoder, &vec![0; RESYNC_PADDING]);
        let bytes = [&hello().encode()[..], &bytes_of(&frames)].concat();
        prop_assert_eq!(decode(&mut decoder, &bytes), session(&frames));
    }

    #[test]
    fn a_truncated_frame_does_not_corrupt_the_next_session(
        before in prop::collection::vec(any_frame(), 0..3),
        torn in any_frame(),
        at: prop::sample::Index,
        after in prop::collection::vec(any_frame(), 0..4),
    ) {
        let torn = bytes_of(&[torn]);
        let at = at.index(torn.len());
        let bytes = [
            &bytes_of(&before)[..],
            &torn[..at],
            &vec![0; RESYNC_PADDING],
            &hello().encode(),
            &bytes_of(&after),
        ].concat();
        let mut events = decode(&mut Decoder::new(), &bytes).into_iter();
        for frame in before {
            prop_assert_eq!(events.next(), Some(Event::Frame(frame)));
        }
        let mut rest: Vec<Event> = events.collect();
        if at > 0 {
            prop_assert!(matches!(rest.remove(0), Event::Lost(_)));
        }
        prop_assert_eq!(rest, session(&after));
    }

    #[test]
    fn a_truncated_hello_is_never_taken_for_the_real_one(at in 1..HELLO_LEN, nonce in any::<[u8; 16]>()) {
        let torn = Hello::new(nonce, Inherit::Keep).encode();
        let bytes = [&torn[..at], &vec![0; RESYNC_PADDING], &hello().encode()].concat();
        let events = decode(&mut Decoder::new(), &bytes);
        // Completed with zeros it may look like a Hello, but then its Welcome has a nonce that nobody waits for.
        prop_assert_eq!(events.len(), 2);
        prop_assert_eq!(&events[1], &Event::Hello(hello()));
    }
}
