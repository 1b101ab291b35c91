//! Words.

use super::ast::{Piece, Word};
use super::cursor::{Excess, Parser, ends_word};

/// Collects the parts of a word and joins neighbouring text.
#[derive(Default)]
pub(super) struct Pieces {
    pieces: Vec<Piece>,
}

impl Pieces {
    pub(super) fn text(&mut self, text: &str, quoted: bool) {
        if let Some(Piece::Text { text: last, quoted: same }) = self.pieces.last_mut()
            && *same == quoted
        {
            last.push_str(text);
            return;
        }
        self.pieces.push(Piece::Text { text: text.to_owned(), quoted });
    }

    pub(super) fn push(&mut self, piece: Piece) {
        self.pieces.push(piece);
    }

    pub(super) fn finish(self) -> Vec<Piece> {
        self.pieces
    }
}

impl Parser<'_> {
    /// Reads a word, or nothing if an operator or the end is next.
    pub(super) fn word(&mut self) -> Result<Option<Word>, Excess> {
        let start = self.at;
        let mut pieces = Pieces::default();
        loop {
            match self.peek() {
                byte @ (b'<' | b'>') if self.peek_at(1) == b'(' => {
                    self.at += 2;
                    let body = self.nested(|parser| parser.list(&[]))?;
                    self.expect(")");
                    pieces.push(Piece::Process { body, reads: byte == b'>' });
                }
                b'(' if self.at > start && self.is_extended_glob() => {
                    // `@(a|b)`: the alternatives are text, unless commands are in them.
                    let end = self.rest().find(')');
                    let inner = &self.rest()[..end.unwrap_or(self.rest().len())];
                    if inner.contains(['$', '`', '<', '>']) {
                        pieces.text("(", false);
                        self.at += 1;
                        continue;
                    }
                    self.damaged |= end.is_none();
                    let length = end.map_or(self.rest().len(), |end| end + 1);
                    let text = &self.rest()[..length];
                    pieces.text(text, false);
                    self.at += length;
                }
                byte if ends_word(byte) => break,
                b'\\' => self.escaped(&mut pieces),
                b'\'' => self.single_quoted(&mut pieces),
                b'"' => self.double_quoted(&mut pieces)?,
                b'`' => self.backquoted(&mut pieces, false)?,
                b'$' => self.dollar(&mut pieces, false)?,
                _ => {
                    let rest = self.rest();
                    let plain =
                        |byte: u8| !ends_word(byte) && !matches!(byte, b'\\' | b'\'' | b'"' | b'`' | b'$');
                    let length = rest.bytes().take_while(|byte| plain(*byte)).count();
                    pieces.text(&rest[..length], false);
                    self.at += length;
                }
            }
        }
        match self.at > start {
            true => Ok(Some(Word { pieces: pieces.finish() })),
            false => Ok(None),
        }
    }

    /// Whether the parenthesis at the position belongs to a pattern such as `!(a|b)`.
    fn is_extended_glob(&self) -> bool {
        let before = self.text.as_bytes()[self.at - 1];
        matches!(before, b'@' | b'?' | b'+' | b'!' | b'*')
    }
}
