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
        let mut end = length;
        if rest.get(end) == Some(&b'[') {
            match rest[end..].iter().take(256).position(|byte| *byte == b']' || *byte == b'\n') {
                Some(close) if rest[end + close] == b']' => end += close + 1,
                _ => return Ok(None),
            }
        }
        let appends = rest.get(end) == Some(&b'+');
        end += usize::from(appends);
        if rest.get(end) != Some(&b'=') {
            return Ok(None);
        }
        let name = self.rest()[..length].to_owned();
        self.at += end + 1;
        let value = match self.take("(") {
            true => self.array()?,
            false => vec![self.word()?.unwrap_or_else(|| Word::literal(""))],
        };
        Ok(Some(Assignment { name, value, appends }))
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
