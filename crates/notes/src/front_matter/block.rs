//! Where the front matter of a note is.

use std::ops::Range;

use crate::limits::MAX_FRONT_MATTER;

/// The front matter of a note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Block {
    /// Everything, with both marker lines.
    pub span: Range<usize>,
    /// The YAML between the marker lines.
    pub yaml: Range<usize>,
}

/// Finds the front matter of a note. A note that begins with `---` and has no second `---` has none.
pub fn block(text: &str) -> Option<Block> {
    let start = start(text);
    let mut at = start;
    let mut yaml = None;
    for line in text.get(start..)?.split_inclusive('\n') {
        let is_marker = line.trim_end() == "---";
        match yaml {
            None if is_marker && line.ends_with('\n') => yaml = Some(at + line.len()),
            None => return None,
            Some(begin) if is_marker => {
                return Some(Block { span: start..at + line.len(), yaml: begin..at });
            }
            Some(begin) if at - begin > MAX_FRONT_MATTER => return None,
            Some(_) => {}
        }
        at += line.len();
    }
    None
}

/// The offset of the first character: behind a byte order mark.
pub(super) fn start(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// The line break of a note.
pub(super) fn line_break(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text.get(..at).is_some_and(|before| before.ends_with('\r')) => "\r\n",
        _ => "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_at_the_beginning_and_closed() {
        let text = "\u{feff}---\r\na: 1\r\n--- \r\nb";
        let block = block(text).unwrap();
        assert_eq!(&text[block.yaml], "a: 1\r\n");
        assert_eq!(&text[block.span.end..], "b");
        for text in
            ["", "---", "---\na: 1\n", " ---\n---\n", "a\n---\n---\n", "----\n---\n", "---\na\n----\n"]
        {
            assert_eq!(super::block(text), None, "{text:?}");
        }
        assert_eq!(super::block("---\n---").unwrap().span, 0..7);
    }
}
