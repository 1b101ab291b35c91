//! Colours, by what they mean.

use owo_colors::{OwoColorize, Style};

/// Colours text if its reader can see colours.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    colour: bool,
}

impl Paint {
    /// Colours, or leaves everything plain.
    pub fn new(colour: bool) -> Self {
        Self { colour }
    }

    /// Something that worked.
    pub fn good(self, text: &str) -> String {
        self.with(text, Style::new().green())
    }

    /// Something that needs attention.
    pub fn warning(self, text: &str) -> String {
        self.with(text, Style::new().yellow())
    }

    /// Something that failed.
    pub fn bad(self, text: &str) -> String {
        self.with(text, Style::new().red().bold())
    }

    /// What the eye should find first.
    pub fn strong(self, text: &str) -> String {
        self.with(text, Style::new().bold())
    }

    /// What the eye may skip.
    pub fn faint(self, text: &str) -> String {
        self.with(text, Style::new().dimmed())
    }

    fn with(self, text: &str, style: Style) -> String {
        if self.colour { text.style(style).to_string() } else { text.to_owned() }
    }
}

/// Makes text that others may have written harmless for a terminal: control characters become visible.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            c if c.is_control() => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}

/// The same on one line: what others may have written cannot look like a line of ours.
pub(crate) fn one_line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        match c {
            c if c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}') => {
                safe.extend(c.escape_default());
            }
            c => safe.push(c),
        }
    }
    safe
}

/// The same for bytes on their way to a terminal; our own colours stay.
pub(super) fn harmless_bytes(bytes: &[u8]) -> String {
    let mut safe = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(place) = rest.find('\x1b') {
            safe.push_str(&harmless(&rest[..place]));
            rest = &rest[place..];
            let own = OWN.iter().find(|own| rest.starts_with(**own));
            let length = own.map_or(1, |own| own.len());
            match own {
                Some(own) => safe.push_str(own),
                None => safe.push_str(&harmless(&rest[..length])),
            }
            rest = &rest[length..];
        }
        safe.push_str(&harmless(rest));
        for byte in chunk.invalid() {
            safe.push_str(&format!("\\x{byte:02x}"));
        }
    }
    safe
}

/// Goes to the first line of a terminal and clears what is below it.
pub const TOP: &str = "\x1b[H\x1b[J";

/// What [`Paint`] and live tables write.
const OWN: &[&str] = &[TOP, "\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31;1m"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_plain_without_colour() {
        let paint = Paint::new(false);
        assert_eq!(paint.good("a") + &paint.bad("b") + &paint.faint("c"), "abc");
        assert_eq!(Paint::new(true).good("a"), "\x1b[32ma\x1b[0m");
    }

    #[test]
    fn one_line_stays_one_line() {
        assert_eq!(
            one_line("curl a\nb\tc\u{1b}[2J\u{202e}d\u{2028}é"),
            "curl a\\nb\\tc\\u{1b}[2J\\u{202e}d\\u{2028}é"
        );
    }

    #[test]
    fn what_is_written_to_a_terminal_has_our_colours_and_no_other_sequence() {
        let paint = Paint::new(true);
        let ours =
            paint.good("a") + &paint.bad("b") + &paint.faint("c") + &paint.strong("d") + &paint.warning("e");
        let ours = format!("{TOP}{ours}");
        assert_eq!(harmless_bytes(ours.as_bytes()), ours);
        let theirs = b"a\x1b]0;title\x07\x1b[2J\x1b[8mhidden\rb\xff\x9b2J\n\tc";
        let shown = "a\\u{1b}]0;title\\u{7}\\u{1b}[2J\\u{1b}[8mhidden\\rb\\xff\\x9b2J\n\tc";
        assert_eq!(harmless_bytes(theirs), shown);
        use std::io::Write as _;
        for (terminal, expected) in [(true, "\\u{1b}[2J"), (false, "\x1b[2J")] {
            let (mut stream, capture) = crate::ui::Stream::captured(terminal, false);
            write!(stream, "\x1b[2J").unwrap();
            assert_eq!(capture.text(), expected);
        }
    }

    #[test]
    fn escape_sequences_from_elsewhere_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b]0;title\x07\r\nü\u{9b}2J"), "a\\u{1b}]0;title\\u{7}\\r\nü\\u{9b}2J");
    }
}
