//! Any bytes decode the same in chunks of any size, and after padding the next Hello is always found.

#![no_main]

use agentiso_proto::{Decoder, Event, Hello, Inherit, RESYNC_PADDING};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (front, back) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let mut whole = Decoder::new();
    let mut halves = Decoder::new();
    let expected = decode(&mut whole, bytes);
    let mut events = decode(&mut halves, front);
    events.extend(decode(&mut halves, back));
    assert_eq!(events, expected);

    let hello = Hello::new([7; 16], Inherit::Keep);
    decode(&mut whole, &vec![0; RESYNC_PADDING]);
    assert_eq!(decode(&mut whole, &hello.encode()), [Event::Hello(hello)]);
});

fn decode(decoder: &mut Decoder, mut input: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = decoder.next(&mut input) {
        events.push(event);
    }
    assert!(input.is_empty());
    events
}
