//! Any bytes, in chunks of any size, decode to the same tree or the same error, and never to an unsafe path.

#![no_main]

use agentiso_proto::{TreeDecoder, TreeError, TreeItem};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, bytes) = input;
    let (front, back) = bytes.split_at(usize::from(cut).min(bytes.len()));
    assert_eq!(decode(&[front, back]), decode(&[bytes]));
});

/// The tree with joined content, and how decoding ended.
fn decode(pieces: &[&[u8]]) -> (Vec<TreeItem>, Result<(), TreeError>) {
    let mut decoder = TreeDecoder::new();
    let mut items = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match decoder.next(&mut input) {
                Ok(Some(item)) => add(&mut items, item),
                Ok(None) => break,
                Err(error) => return (items, Err(error)),
            }
        }
    }
    (items, Ok(()))
}

fn add(items: &mut Vec<TreeItem>, item: TreeItem) {
    match (items.last_mut(), item) {
        (Some(TreeItem::Content(before)), TreeItem::Content(more)) => before.extend(more),
        (_, item) => {
            if let TreeItem::Entry(entry) = &item {
                let climbs = entry.path.split(|byte| *byte == b'/').any(|part| part == b"..");
                assert!(!climbs && !entry.path.starts_with(b"/"));
            }
            items.push(item);
        }
    }
}
