//! Redirections.

use super::ast::{Piece, Redirect, RedirectKind, Word};
use super::cursor::{Excess, Parser};

/// Operators, longest first. `>&` is decided by what follows it.
const OPERATORS: &[(&str, RedirectKind)] = &[
    ("&>>", RedirectKind::Append),
    ("<<<", RedirectKind::Text),
    ("&>", RedirectKind::Write),
    (">>", RedirectKind::Append),
    (">|", RedirectKind::Write),
    (">&", RedirectKind::Duplicate),
    ("<&", RedirectKind::Duplicate),
    ("<>", RedirectKind::ReadWrite),
    (">", RedirectKind::Write),
    ("<", RedirectKind::Read),
];

impl Parser<'_> {
    /// Reads a redirection, if one is next.
    pub(super) fn redirect(&mut self) -> Result<Option<Redirect>, Excess> {
        let before = self.at;
        let descriptor = self.descriptor();
        if self.starts_with("<(") || self.starts_with(">(") {
            self.at = before;
            return Ok(None);
        }
        if self.starts_with("<<") && !self.starts_with("<<<") {
            self.at += 2;
            let target = self.here_document()?;
            return Ok(Some(Redirect { kind: RedirectKind::Text, descriptor, target }));
        }
        let Some((operator, kind)) = OPERATORS.iter().find(|(operator, _)| self.starts_with(operator)) else {
            self.at = before;
            return Ok(None);
        };
        self.at += operator.len();
        self.skip_blanks();
        let Some(target) = self.word()? else {
            self.damaged = true;
            return Ok(Some(Redirect { kind: *kind, descriptor, target: Word::default() }));
        };
        let kind = match *operator {
            ">&" if !is_descriptor(&target) => RedirectKind::Write,
            _ => *kind,
        };
        Ok(Some(Redirect { kind, descriptor, target }))
    }

    /// `2` in `2>file`, or `{fd}` in `{fd}>file`. Moves back if no operator follows.
    fn descriptor(&mut self) -> Option<u32> {
        let rest = self.rest().as_bytes();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 && digits < 5 && matches!(rest.get(digits), Some(b'<' | b'>')) {
            let number = self.rest()[..digits].parse().ok();
            self.at += digits;
            return number;
        }
        if rest.first() == Some(&b'{') {
            let name =
                rest[1..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
            if name > 0
                && rest.get(name + 1) == Some(&b'}')
                && matches!(rest.get(name + 2), Some(b'<' | b'>'))
            {
                self.at += name + 2;
            }
        }
        None
    }
}

fn is_descriptor(target: &Word) -> bool {
    match target.pieces.as_slice() {
        [Piece::Text { text, .. }] => {
            text == "-" || text.trim_end_matches('-').bytes().all(|byte| byte.is_ascii_digit())
        }
        [Piece::Parameter { .. }] => true,
        _ => false,
    }
}
