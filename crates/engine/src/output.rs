//! Parts of long texts.

/// Text up to a limit, cut where a character ends.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// As many bytes as are whole characters; a character that was cut at the end is left for the next read.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.len(),
        // Only an incomplete character at the end is left out. Other bytes that are not text are replaced when shown.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_character_waits_and_garbage_does_not() {
        assert_eq!(whole_characters("ä".as_bytes()), 2);
        assert_eq!(whole_characters(&"aä".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(b"a\xffb"), 3);
        assert_eq!(whole_characters(b"\xc3"), 1);
    }

    proptest! {
        #[test]
        fn a_cut_text_is_text_and_no_longer_than_asked(text in ".*", limit in 0usize..64) {
            let cut = cut(&text, limit);
            prop_assert!(cut.len() <= limit && text.starts_with(cut));
        }
    }
}
