//! Expansions that begin with `$`.

use super::ast::{Change, Piece, Word};
use super::cursor::{Excess, Parser};
use super::word::Pieces;

impl Parser<'_> {
    pub(super) fn dollar(&mut self, pieces: &mut Pieces, quoted: bool) -> Result<(), Excess> {
        self.at += 1;
        match self.peek() {
            b'(' if self.peek_at(1) == b'(' && self.closes_doubly(self.at + 2) => {
                self.at += 2;
                let inner = self.nested(|parser| parser.arithmetic())?;
                pieces.push(Piece::Arithmetic(inner));
            }
            b'(' => {
                self.at += 1;
                let body = self.nested(|parser| parser.list(&[]))?;
                self.expect(")");
                pieces.push(Piece::Command { body, quoted });
            }
            b'{' => {
                self.at += 1;
                let (index, piece) = self.nested(|parser| parser.braced(quoted))?;
                if !index.is_empty() {
                    pieces.push(Piece::Evaluated(index));
                }
                pieces.push(piece);
            }
            b'[' => {
                // The old form of `$(( … ))`.
                self.at += 1;
                let inner = self.nested(|parser| parser.arithmetic_until(b']'))?;
                pieces.push(Piece::Arithmetic(inner));
            }
            b'\'' if !quoted => {
                self.at += 1;
                self.ansi_quoted(pieces);
            }
            b'"' if !quoted => self.double_quoted(pieces)?,
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = self.identifier();
                pieces.push(Piece::Parameter { name, change: Change::None, quoted });
            }
            byte if byte.is_ascii_digit() || b"@*#?$!-".contains(&byte) => {
                self.at += 1;
                let name = char::from(byte).to_string();
                // `"$@"` becomes several words.
                let quoted = quoted && byte != b'@';
                pieces.push(Piece::Parameter { name, change: Change::None, quoted });
            }
            _ => pieces.text("$", quoted),
        }
        Ok(())
    }

    fn identifier(&mut self) -> String {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        self.at += length;
        rest[..length].to_owned()
    }

    /// The inside of `${ … }`.
    fn braced(&mut self, quoted: bool) -> Result<(Vec<Piece>, Piece), Excess> {
        let is_length = self.peek() == b'#' && self.peek_at(1) != b'}';
        let is_indirect = self.peek() == b'!';
        if is_length || is_indirect {
            self.at += 1;
        }
        let mut name = self.identifier();
        if name.is_empty() && !self.is_at_end() {
            let special = self.peek();
            if b"@*#?$!-".contains(&special) {
                name.push(char::from(special));
                self.at += 1;
            }
        }
        let mut index = Vec::new();
        let mut is_every = name == "@" || name == "*";
        if self.take("[") {
            is_every |= self.rest().starts_with(['@', '*']);
            index = self.arithmetic_until(b']')?;
        }
        let operator = self.rest();
        let start = self.at;
        let change = if operator.starts_with('}') {
            Change::None
        } else if operator.starts_with(":-") || operator.starts_with(":=") {
            self.at += 2;
            Change::Default(self.operand()?)
        } else if operator.starts_with(":+") {
            self.at += 2;
            Change::Alternative(self.operand()?)
        } else if operator.starts_with(['-', '=']) {
            self.at += 1;
            Change::Default(self.operand()?)
        } else if operator.starts_with('+') {
            self.at += 1;
            Change::Alternative(self.operand()?)
        } else {
            let operand = self.operand()?;
            literal_change(&self.text[start..self.at]).unwrap_or(Change::Unknown(operand))
        };
        self.expect("}");
        let change = match change {
            Change::None if is_length || is_indirect => Change::Unknown(Word::default()),
            other => other,
        };
        Ok((index, Piece::Parameter { name, change, quoted: quoted && !is_every }))
    }

    /// The word behind the operator, up to the closing brace.
    fn operand(&mut self) -> Result<Word, Excess> {
        let mut pieces = Pieces::default();
        loop {
            match self.peek() {
                0 if self.is_at_end() => break,
                b'}' => break,
                b'\\' => self.escaped(&mut pieces),
                b'\'' => self.single_quoted(&mut pieces),
                b'"' => self.double_quoted(&mut pieces)?,
                b'`' => self.backquoted(&mut pieces, false)?,
                b'$' => self.dollar(&mut pieces, false)?,
                _ => {
                    let rest = self.rest();
                    let plain = |byte: u8| !matches!(byte, b'}' | b'\\' | b'\'' | b'"' | b'`' | b'$');
                    let length = rest.bytes().take_while(|byte| plain(*byte)).count().max(1);
                    pieces.text(&rest[..length], false);
                    self.at += length;
                }
            }
        }
        Ok(Word { pieces: pieces.finish() })
    }

    /// The inside of `(( … ))`, with its closing parentheses.
    pub(super) fn arithmetic(&mut self) -> Result<Vec<Piece>, Excess> {
        let pieces = self.arithmetic_until(b')')?;
        self.take(")");
        Ok(pieces)
    }

    pub(super) fn arithmetic_until(&mut self, closer: u8) -> Result<Vec<Piece>, Excess> {
        let opener = if closer == b')' { b'(' } else { b'[' };
        let mut pieces = Pieces::default();
        let mut open = 0u32;
        loop {
            let byte = self.peek();
            match byte {
                0 if self.is_at_end() => {
                    self.damaged = true;
                    break;
                }
                b'$' => self.dollar(&mut pieces, true)?,
                b'`' => self.backquoted(&mut pieces, true)?,
                b'"' | b'\'' => self.at += 1,
                _ if byte == opener => {
                    open += 1;
                    self.at += 1;
                }
                _ if byte == closer && open == 0 => {
                    self.at += 1;
                    break;
                }
                _ if byte == closer => {
                    open -= 1;
                    self.at += 1;
                }
                _ => {
                    self.bump();
                }
            }
        }
        Ok(pieces.finish())
    }

    /// Whether the parentheses that are open before `from` are closed together, which makes them arithmetic.
    pub(super) fn closes_doubly(&self, from: usize) -> bool {
        let bytes = self.text.as_bytes();
        let mut open = 0u32;
        let mut at = from;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\'' | b'"' => {
                    let Some(length) = bytes[at + 1..].iter().position(|other| other == byte) else {
                        return false;
                    };
                    at += length + 1;
                }
                b'(' => open += 1,
                b')' if open == 0 => return bytes.get(at + 1) == Some(&b')'),
                b')' => open -= 1,
                _ => {}
            }
            at += 1;
        }
        false
    }
}

/// `:1:2` and `/from/to` of literal text.
fn literal_change(operator: &str) -> Option<Change> {
    if operator.contains(['$', '`', '\\', '\'', '"']) {
        return None;
    }
    if let Some(slice) = operator.strip_prefix(':') {
        let mut numbers = slice.splitn(2, ':').map(|number| number.trim().parse::<i64>());
        let offset = numbers.next()?.ok()?;
        return match numbers.next() {
            None => Some(Change::Slice(offset, None)),
            Some(length) => Some(Change::Slice(offset, Some(length.ok()?))),
        };
    }
    if operator == "@P" {
        return Some(Change::Prompt);
    }
    for (mark, from_end) in [("%%", true), ("%", true), ("##", false), ("#", false)] {
        if let Some(pattern) = operator.strip_prefix(mark) {
            let is_longest = mark.len() == 2;
            return Some(Change::Trim { pattern: pattern.to_owned(), from_end, is_longest });
        }
    }
    let replace = operator.strip_prefix('/')?;
    let (replace, all) = match replace.strip_prefix('/') {
        Some(rest) => (rest, true),
        None => (replace, false),
    };
    let (from, to) = replace.split_once('/').unwrap_or((replace, ""));
    let is_pattern = from.is_empty() || from.contains(['*', '?', '[', '#', '%']);
    (!is_pattern).then(|| Change::Replace { from: from.to_owned(), to: to.to_owned(), all })
}
