//! The parser's position in the text, and its limits.

/// The longest line that is read. Linux runs no program with a longer single argument, so no shell can be given one.
pub const MAX_LENGTH: usize = 128 * 1024;

/// How deeply commands and substitutions may be nested.
pub const MAX_DEPTH: u32 = 48;

/// Why a line is not read at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Excess {
    /// Longer than [`MAX_LENGTH`].
    #[error("it is longer than {MAX_LENGTH} bytes")]
    Length,
    /// Deeper than [`MAX_DEPTH`].
    #[error("it is nested more than {MAX_DEPTH} levels deep")]
    Depth,
    /// Evaluating it takes too many steps.
    #[error("it has too many steps")]
    Steps,
}

/// Reads a text from start to end.
pub struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: u32,
    /// Set once something could not be read as shell syntax.
    pub(super) damaged: bool,
    /// The newline before the here-documents of the present line, and the position behind them.
    pub(super) documents: Option<(usize, usize)>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, depth: u32) -> Self {
        Self { text, at: 0, depth, damaged: false, documents: None }
    }

    /// The byte at the position, or 0 at the end. The text has no NUL bytes.
    pub(super) fn peek(&self) -> u8 {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text.as_bytes()[self.at.min(self.text.len())..].starts_with(prefix.as_bytes())
    }

    /// Skips `prefix` if it is next.
    pub(super) fn take(&mut self, prefix: &str) -> bool {
        let is_next = self.starts_with(prefix);
        if is_next {
            self.at += prefix.len();
        }
        is_next
    }

    /// The next character, and moves past it. A newline moves past the here-documents that follow it.
    pub(super) fn bump(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        match self.documents {
            Some((newline, behind)) if self.at == newline => {
                self.at = behind;
                self.documents = None;
            }
            _ => self.at += next.len_utf8(),
        }
        Some(next)
    }

    /// Runs `read` one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Excess>,
    ) -> Result<T, Excess> {
        if self.depth >= MAX_DEPTH {
            return Err(Excess::Depth);
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Skips blanks, continued lines and comments.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'\\' if self.peek_at(1) == b'\n' => self.at += 2,
                b'#' => self.skip_comment(),
                _ => return,
            }
        }
    }

    fn skip_comment(&mut self) {
        let length = self.rest().find('\n').unwrap_or(self.rest().len());
        self.at += length;
    }

    /// Skips blanks, comments and newlines.
    pub(super) fn skip_lines(&mut self) {
        loop {
            self.skip_blanks();
            if self.peek() != b'\n' {
                return;
            }
            self.bump();
        }
    }

    /// Whether the reserved word is next, and not just the beginning of a longer word.
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        self.starts_with(word) && ends_word(self.peek_at(word.len()))
    }

    /// Skips the reserved word if it is next.
    pub(super) fn take_keyword(&mut self, word: &str) -> bool {
        let is_next = self.is_keyword(word);
        if is_next {
            self.at += word.len();
        }
        is_next
    }
}

/// Whether an unquoted byte ends a word; 0 is the end of the text.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')')
}
