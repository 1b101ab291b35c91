//! Bounded capture of the output of a command.

use std::collections::VecDeque;

/// The beginning and the end of a byte stream of any length.
///
/// The beginning and the end of an output are what readers need; the middle is dropped to bound memory.
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

    /// The number of bytes added, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The number of bytes dropped between the beginning and the end.
    pub fn omitted(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Everything that was added, if nothing was dropped.
    pub fn whole(&self) -> Option<Vec<u8>> {
        let all = || self.head.iter().chain(&self.tail).copied().collect();
        (self.omitted() == 0).then(all)
    }

    /// The text within a limit: the beginning and the end, cut at line ends where possible, with the text of `remark`
    /// for the number of missing bytes between them. Bytes that are not UTF-8 are replaced; the replacement counts.
    pub fn text_within(&self, limit: usize, remark: impl FnOnce(u64) -> String) -> String {
        if self.omitted() == 0 && self.total <= limit as u64 {
            let text = self.text();
            if text.len() <= limit {
                return text;
            }
        }
        let (mut head, mut tail) = (self.head.clone(), self.tail.iter().copied().collect::<Vec<u8>>());
        if self.omitted() == 0 {
            head.append(&mut tail);
            tail = head.split_off(head.len() / 2);
        }
        let head = first_lines(&head, limit - limit / 2);
        let tail = last_lines(&tail, limit / 2);
        let left_out = self.total.saturating_sub(head.1 + tail.1);
        let newline = if head.0.is_empty() || head.0.ends_with('\n') { "" } else { "\n" };
        format!("{}{newline}{}\n{}", head.0, remark(left_out), tail.0)
    }

    /// The bytes that were kept: the beginning, directly followed by the end.
    pub fn bytes(&self) -> Vec<u8> {
        self.head.iter().chain(&self.tail).copied().collect()
    }

    /// Whether the kept bytes are UTF-8. Characters that were split by dropping bytes do not count.
    pub fn is_text(&self) -> bool {
        if self.omitted() == 0 {
            return std::str::from_utf8(&self.bytes()).is_ok();
        }
        let head = std::str::from_utf8(&self.head).err().is_none_or(|error| error.error_len().is_none());
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        // A character has at most three bytes that continue it.
        let begun = tail.iter().take(3).take_while(|&&byte| byte & 0xc0 == 0x80).count();
        head && std::str::from_utf8(&tail[begun..]).is_ok()
    }

    /// The text, with a remark where bytes were dropped. Bytes that are not UTF-8 are replaced.
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

/// How far before the limit a line may end for the text to be cut there.
const LINE: usize = 2000;

/// The beginning as text of at most `limit` bytes, and the number of bytes it was made from.
fn first_lines(bytes: &[u8], limit: usize) -> (String, u64) {
    let (mut text, mut taken) = (String::new(), 0);
    for chunk in bytes.utf8_chunks() {
        let room = limit - text.len();
        let valid = &chunk.valid()[..chunk.valid().floor_char_boundary(room)];
        text.push_str(valid);
        taken += valid.len();
        if valid.len() < chunk.valid().len() || text.len() + '\u{fffd}'.len_utf8() > limit {
            break;
        }
        if !chunk.invalid().is_empty() {
            text.push('\u{fffd}');
            taken += chunk.invalid().len();
        }
    }
    if taken < bytes.len()
        && let Some(end) = text.rfind('\n')
        && text.len() - end <= LINE.min(limit / 4)
        // A replacement character is longer than what it replaces, so the count would be wrong.
        && !text[end..].contains('\u{fffd}')
    {
        taken -= text.len() - end - 1;
        text.truncate(end + 1);
    }
    (text, taken as u64)
}

/// Like [`first_lines`], for the end.
fn last_lines(bytes: &[u8], limit: usize) -> (String, u64) {
    let mut start = bytes.len().saturating_sub(limit);
    loop {
        // Replacement characters are longer than what they replace.
        while start < bytes.len() && bytes[start] & 0xc0 == 0x80 {
            start += 1;
        }
        let text = String::from_utf8_lossy(&bytes[start..]);
        if text.len() <= limit {
            break;
        }
        start += (text.len() - limit).div_ceil(3);
    }
    if start > 0
        && bytes[start - 1] != b'\n'
        && let Some(line) = bytes[start..].iter().take(LINE.min(limit / 4)).position(|&byte| byte == b'\n')
    {
        start += line + 1;
    }
    (String::from_utf8_lossy(&bytes[start..]).into_owned(), (bytes.len() - start) as u64)
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

    proptest! {
        #[test]
        fn a_text_within_a_limit_is_the_beginning_and_the_end(
            text in "([a-zä]{0,9}\n?){0,60}", keep in 0usize..200, limit in 0usize..100,
        ) {
            let mut capture = Capture::new(keep.max(limit));
            capture.push(text.as_bytes());
            let shown = capture.text_within(limit, |bytes| format!("[{bytes}]"));
            if text.len() <= limit {
                prop_assert_eq!(shown, text);
            } else {
                let (head, rest) = shown.split_once('[').unwrap();
                let (bytes, tail) = rest.split_once("]\n").unwrap();
                let head = if text.starts_with(head) { head } else { head.trim_end_matches('\n') };
                prop_assert!(text.starts_with(head) && text.ends_with(tail), "{shown:?}");
                prop_assert!(head.len() <= limit + 1 && tail.len() <= limit);
                let known = head.len() + tail.len() + bytes.parse::<usize>().unwrap();
                prop_assert!(known.abs_diff(text.len()) <= 1, "{known} of {}", text.len());
            }
        }

        #[test]
        fn bytes_that_are_not_text_count_as_what_is_shown_of_them(
            bytes in proptest::collection::vec(any::<u8>(), 0..300), limit in 0usize..100,
        ) {
            let mut capture = Capture::new(limit);
            capture.push(&bytes);
            let shown = capture.text_within(limit, |_| String::new());
            prop_assert!(shown.len() <= limit + 2, "{}", shown.len());
        }
    }

    #[test]
    fn text_stays_text_where_it_was_cut() {
        let kept = |limit, bytes: &[u8]| {
            let mut capture = Capture::new(limit);
            capture.push(bytes);
            capture
        };
        assert!(kept(64, "grün".as_bytes()).is_text());
        assert!(kept(7, "üüüüüüüüü".as_bytes()).is_text());
        assert!(!kept(64, b"a\xffb").is_text());
        assert!(!kept(6, b"\xff\xffbcdefghi").is_text());
        assert_eq!(kept(4, b"abcdefgh").bytes(), b"abgh");
    }

    #[test]
    fn what_was_left_out_is_said() {
        let mut capture = Capture::new(4);
        capture.push(b"abcdefgh");
        assert_eq!(capture.text(), "ab\n[... 4 bytes left out ...]\ngh");
    }
}
