//! Simple commands and assignments.

use super::ast::{Assignment, Node, Simple, Word};
use super::cursor::{Excess, Parser};

/// Builtins whose arguments may be array assignments: `declare -a x=(1 2)`.
const DECLARATIONS: &[&str] = &["declare", "local", "export", "readonly", "typeset"];

impl Parser<'_> {
    /// Reads assignments, words and redirections up to an operator.
    pub(super) fn simple(&mut self) -> Result<Option<Node>, Excess> {
        let mut simple = Simple::default();
        let mut declares = false;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
                continue;
            }
            if simple.words.is_empty() || declares {
                if simple.words.is_empty() {
                    declares = DECLARATIONS.iter().any(|word| self.is_keyword(word));
                }
                if let Some(assignment) = self.assignment()? {
                    simple.assignments.push(assignment);
                    continue;
                }
            }
            match self.word()? {
                Some(word) => simple.words.push(word),
                None => break,
            }
        }
        let is_empty =
            simple.words.is_empty() && simple.assignments.is_empty() && simple.redirects.is_empty();
        Ok((!is_empty).then_some(Node::Simple(simple)))
    }

    fn assignment(&mut self) -> Result<Option<Assignment>, Excess> {
        let rest = self.rest().as_bytes();
        let is_start = rest.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
        if !is_start {
            return Ok(None);
        }
        let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let end = match rest.get(length) {
            Some(b'[') => match index_end(rest, length) {
                Some(end) => end,
                None => return Ok(None),
            },
            _ => length,
        };
        let appends = rest.get(end) == Some(&b'+');
        if rest.get(end + usize::from(appends)) != Some(&b'=') {
            return Ok(None);
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        let mut index = Vec::new();
        if self.take("[") {
            index = self.nested(|parser| parser.arithmetic_until(b']'))?;
        }
        self.take("+");
        // It was found above, so this only fails if quotes hide the end of the index: never read twice.
        self.damaged |= !self.take("=");
        let value = match self.take("(") {
            true => self.array()?,
            false => vec![self.word()?.unwrap_or_else(|| Word::literal(""))],
        };
        Ok(Some(Assignment { name, index, value, appends }))
    }

    fn array(&mut self) -> Result<Vec<Word>, Excess> {
        let mut elements = Vec::new();
        loop {
            self.skip_lines();
            match self.word()? {
                Some(word) => elements.push(word),
                None => {
                    self.expect(")");
                    return Ok(elements);
                }
            }
        }
    }
}

/// The position behind the `]` that closes the `[` at `start`, on the same line.
fn index_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut open = 0u32;
    for (at, byte) in bytes.iter().enumerate().skip(start).take(1024) {
        match byte {
            b'[' => open += 1,
            b']' if open == 1 => return Some(at + 1),
            b']' => open -= 1,
            b'\n' => return None,
            _ => {}
        }
    }
    None
}
