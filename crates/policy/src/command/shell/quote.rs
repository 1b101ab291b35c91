//! Quotes and escapes.

use super::ast::Piece;
use super::cursor::{Excess, Parser};
use super::list::parse;
use super::word::Pieces;

impl Parser<'_> {
    /// A backslash outside quotes.
    pub(super) fn escaped(&mut self, pieces: &mut Pieces) {
        self.at += 1;
        match self.rest().chars().next() {
            None => self.damaged = true,
            Some('\n') => self.at += 1,
            Some(next) => {
                let length = next.len_utf8();
                pieces.text(&self.rest()[..length], true);
                self.at += length;
            }
        }
    }

    pub(super) fn single_quoted(&mut self, pieces: &mut Pieces) {
        self.at += 1;
        let rest = self.rest();
        let end = match rest.find('\'') {
            Some(end) => end,
            None => {
                self.damaged = true;
                rest.len()
            }
        };
        pieces.text(&rest[..end], true);
        self.at = (self.at + end + 1).min(self.text.len());
    }

    pub(super) fn double_quoted(&mut self, pieces: &mut Pieces) -> Result<(), Excess> {
        self.at += 1;
        // Even `""` is a word.
        pieces.text("", true);
        for piece in self.nested(|parser| parser.expanded_text(true))? {
            match piece {
                Piece::Text { text, .. } => pieces.text(&text, true),
                other => pieces.push(other),
            }
        }
        Ok(())
    }

    /// Text with expansions: up to a double quote if `quoted`, else up to the end, as in a here-document.
    pub(super) fn expanded_text(&mut self, quoted: bool) -> Result<Vec<Piece>, Excess> {
        let mut pieces = Pieces::default();
        loop {
            if self.is_at_end() {
                self.damaged |= quoted;
                break;
            }
            match self.peek() {
                b'"' if quoted => {
                    self.at += 1;
                    break;
                }
                b'\\' => {
                    let next = self.peek_at(1);
                    match next {
                        b'\n' => self.at += 2,
                        b'$' | b'`' | b'\\' | b'"' if next != b'"' || quoted => {
                            pieces.text(&self.text[self.at + 1..self.at + 2], true);
                            self.at += 2;
                        }
                        _ => {
                            pieces.text("\\", true);
                            self.at += 1;
                        }
                    }
                }
                b'`' => self.backquoted(&mut pieces, true)?,
                b'$' => self.dollar(&mut pieces, true)?,
                _ => {
                    let rest = self.rest();
                    let plain = |byte: u8| !matches!(byte, b'"' | b'\\' | b'`' | b'$');
                    let length = rest.bytes().take_while(|byte| plain(*byte)).count().max(1);
                    pieces.text(&rest[..length], true);
                    self.at += length;
                }
            }
        }
        Ok(pieces.finish())
    }

    /// `` `…` ``: its text is parsed by itself, after one level of escapes is removed.
    pub(super) fn backquoted(&mut self, pieces: &mut Pieces, quoted: bool) -> Result<(), Excess> {
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.rest().chars().next() {
                None => {
                    self.damaged = true;
                    break;
                }
                Some('`') => {
                    self.at += 1;
                    break;
                }
                Some('\\') if matches!(self.peek_at(1), b'`' | b'\\' | b'$') => {
                    inner.push(char::from(self.peek_at(1)));
                    self.at += 2;
                }
                Some(other) => {
                    inner.push(other);
                    self.at += other.len_utf8();
                }
            }
        }
        let depth = self.depth;
        let parsed = self.nested(|_| parse(&inner, depth + 1))?;
        self.damaged |= parsed.damaged;
        pieces.push(Piece::Command { body: parsed.list, quoted });
        Ok(())
    }

    /// `$'…'` with its escapes; the position is behind the first quote.
    pub(super) fn ansi_quoted(&mut self, pieces: &mut Pieces) {
        let mut bytes: Vec<u8> = Vec::new();
        loop {
            let Some(next) = self.rest().chars().next() else {
                self.damaged = true;
                break;
            };
            self.at += next.len_utf8();
            match next {
                '\'' => break,
                '\\' => self.ansi_escape(&mut bytes),
                other => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        // NUL means unknown text elsewhere, and the shell cuts the string there.
        let text = String::from_utf8_lossy(&bytes).replace('\0', "");
        pieces.text(&text, true);
    }

    fn ansi_escape(&mut self, bytes: &mut Vec<u8>) {
        let Some(kind) = self.rest().chars().next() else { return };
        self.at += kind.len_utf8();
        let code = match kind {
            'n' => 10,
            't' => 9,
            'r' => 13,
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'v' => 11,
            'x' => self.digits(16, 2),
            'u' => self.digits(16, 4),
            'U' => self.digits(16, 8),
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3)
            }
            other => u32::from(other),
        };
        match (kind, u8::try_from(code)) {
            ('u' | 'U', _) | (_, Err(_)) => {
                let letter = char::from_u32(code).unwrap_or('\u{fffd}');
                bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes());
            }
            (_, Ok(byte)) => bytes.push(byte),
        }
    }

    fn digits(&mut self, radix: u32, most: usize) -> u32 {
        let digits = self.rest().chars().take(most).map_while(|digit| digit.to_digit(radix));
        let (count, value) =
            digits.fold((0, 0u32), |(count, value), digit| (count + 1, value.wrapping_mul(radix) + digit));
        self.at += count;
        value
    }
}
