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
    fn escape_sequences_from_elsewhere_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b]0;title\x07\r\nü\u{9b}2J"), "a\\u{1b}]0;title\\u{7}\\r\nü\\u{9b}2J");
    }
}
