//! Code spans and comments inside of a paragraph.

use std::collections::HashMap;
use std::ops::Range;

/// A comment that is not closed yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Open {
    /// `<!-- -->`
    Html,
    /// `%% %%`, which Obsidian has.
    Percent,
}

impl Open {
    pub(super) fn closer(self) -> &'static str {
        match self {
            Self::Html => "-->",
            Self::Percent => "%%",
        }
    }
}

/// Whether a text opens a comment that goes on behind it.
pub(super) fn opens_comment(text: &str) -> bool {
    hidden(text, |_| {}).is_some()
}

/// Reports the ranges of code and comments in order. Returns the comment that goes on behind the paragraph; its part of
/// the paragraph is reported.
pub(super) fn hidden(text: &str, mut report: impl FnMut(Range<usize>)) -> Option<Open> {
    let bytes = text.as_bytes();
    let mut closers = None;
    let mut has_no_html_end = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            // A backslash takes the meaning from the next character.
            b'\\' => at += 2,
            b'`' => {
                let len = run(bytes, at);
                let closers = closers.get_or_insert_with(|| closers_of(bytes));
                match closers.get(&at) {
                    Some(end) => {
                        report(at..*end);
                        at = *end;
                    }
                    None => at += len,
                }
            }
            b'%' if bytes.get(at + 1) == Some(&b'%') => {
                let Some(end) = text.get(at + 2..).and_then(|rest| rest.find("%%")) else {
                    report(at..bytes.len());
                    return Some(Open::Percent);
                };
                report(at..at + 2 + end + 2);
                at += 2 + end + 2;
            }
            b'<' if !has_no_html_end && bytes.get(at..).is_some_and(|rest| rest.starts_with(b"<!--")) => {
                match text.get(at + 4..).and_then(|rest| rest.find("-->")) {
                    Some(end) => {
                        report(at..at + 4 + end + 3);
                        at += 4 + end + 3;
                    }
                    // Not closed in its paragraph: text.
                    None => {
                        has_no_html_end = true;
                        at += 1;
                    }
                }
            }
            _ => at += 1,
        }
    }
    None
}

fn run(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| **byte == b'`').count()
}

/// For each run of backticks with a later run of the same length, where that one ends.
fn closers_of(bytes: &[u8]) -> HashMap<usize, usize> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let len = run(bytes, at);
        if len > 0 {
            runs.push((at, len));
        }
        at += len.max(1);
    }
    let mut next: HashMap<usize, usize> = HashMap::new();
    let mut closers = HashMap::new();
    for (at, len) in runs.into_iter().rev() {
        if let Some(end) = next.insert(len, at + len) {
            closers.insert(at, end);
        }
    }
    closers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> (Vec<&str>, Option<Open>) {
        let mut ranges = Vec::new();
        let open = hidden(text, |range| ranges.push(range));
        (ranges.into_iter().map(|range| &text[range]).collect(), open)
    }

    #[test]
    fn a_code_span_ends_at_a_run_of_the_same_length() {
        assert_eq!(found("a `b` ``c`d`` `e"), (vec!["`b`", "``c`d``"], None));
        assert_eq!(found("\\`a` b`").0, ["` b`"]);
    }

    #[test]
    fn comments_are_closed_or_go_on() {
        assert_eq!(found("a %%b%% c <!-- d --> e"), (vec!["%%b%%", "<!-- d -->"], None));
        assert_eq!(found("a %% b"), (vec!["%% b"], Some(Open::Percent)));
        assert_eq!(found("a <!-- b"), (vec![], None));
    }

    #[test]
    fn a_million_openers_take_no_longer_than_their_length() {
        for text in
            ["`".repeat(2) + &"` `` ``` ".repeat(100_000), "<!--".repeat(200_000), "[[".repeat(400_000)]
        {
            hidden(&text, |_| {});
        }
    }
}
