//! Keeping what a command printed, within bounds.

use std::collections::VecDeque;

/// The beginning and the end of a byte stream of any length.
///
/// What a command says first and last is what a reader needs; the middle of a flood is not worth its memory.
#[derive(Clone, Debug)]
pub struct Capture {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    /// Keeps at most `limit` bytes: half from the beginning, half from the end.
    pub fn new(limit: usize) -> Self {
        Self { limit, head: Vec::new(), tail: VecDeque::new(), total: 0 }
    }

    /// Adds bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let head_room = (self.limit - self.limit / 2) - self.head.len();
        let (first, rest) = bytes.split_at(head_room.min(bytes.len()));
        self.head.extend_from_slice(first);
        let keep = self.limit / 2;
        let rest = &rest[rest.len().saturating_sub(keep)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(keep);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// All bytes that were added, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Bytes that were left out between beginning and end.
    pub fn omitted(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// The text, with a remark where something was left out. Bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        let (mut bytes, tail): (Vec<u8>, Vec<u8>) = (self.head.clone(), self.tail.iter().copied().collect());
        if self.omitted() == 0 {
            bytes.extend(tail);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let (head, tail) = (String::from_utf8_lossy(&bytes), String::from_utf8_lossy(&tail));
        format!("{head}\n[... {} bytes left out ...]\n{tail}", self.omitted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_whole(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20), limit in 0usize..64) {
            let whole: Vec<u8> = pieces.concat();
            let mut capture = Capture::new(limit);
            pieces.iter().for_each(|piece| capture.push(piece));
            prop_assert_eq!(capture.total(), whole.len() as u64);
            let kept = capture.head.len() + capture.tail.len();
            prop_assert_eq!(kept, whole.len().min(limit));
            prop_assert!(whole.starts_with(&capture.head));
            let tail: Vec<u8> = capture.tail.iter().copied().collect();
            prop_assert!(whole.ends_with(&tail));
        }
    }

    #[test]
    fn what_was_left_out_is_said() {
        let mut capture = Capture::new(4);
        capture.push(b"abcdefgh");
        assert_eq!(capture.text(), "ab\n[... 4 bytes left out ...]\ngh");
    }
}
