//! Lists and pipelines.

use super::ast::{List, Node};
use super::cursor::{Excess, MAX_LENGTH, Parser};

/// The commands of a text.
#[derive(Debug)]
pub struct Parsed {
    /// All commands that could be read.
    pub list: List,
    /// Whether parts of the text are not shell syntax.
    pub damaged: bool,
}

/// Parses a text that stands `depth` levels deep in others.
pub fn parse(text: &str, depth: u32) -> Result<Parsed, Excess> {
    if text.len() > MAX_LENGTH {
        return Err(Excess::Length);
    }
    // A NUL byte cannot be in an argument. We use it for "the end" and, later, for "unknown text".
    let without_nul;
    let (text, has_nul) = match text.contains('\0') {
        true => {
            without_nul = text.replace('\0', " ");
            (without_nul.as_str(), true)
        }
        false => (text, false),
    };
    let mut parser = Parser::new(text, depth);
    let mut list = List::new();
    loop {
        list.extend(parser.list(&[])?);
        if parser.is_at_end() {
            break;
        }
        // A word such as `)` or `done` without its beginning.
        parser.damaged = true;
        parser.bump();
    }
    Ok(Parsed { list, damaged: parser.damaged || has_nul })
}

/// Reserved words that end a list wherever they stand as a command.
const CLOSERS: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];

impl Parser<'_> {
    /// Reads commands up to a closing parenthesis, `;;`, the end, or one of the reserved words in `until`.
    pub(super) fn list(&mut self, until: &[&str]) -> Result<List, Excess> {
        let mut list = List::new();
        let mut separators = 0;
        loop {
            self.skip_separators(separators);
            separators = 1;
            if self.is_at_end() || self.peek() == b')' || (self.starts_with(";;") && !until.is_empty()) {
                return Ok(list);
            }
            if until.iter().any(|word| self.is_keyword(word)) {
                return Ok(list);
            }
            if let Some(stray) = CLOSERS.iter().find(|word| self.is_keyword(word)) {
                self.damaged = true;
                self.at += stray.len();
                continue;
            }
            let before = self.at;
            if let Some(node) = self.pipeline()? {
                list.push(node);
            }
            if self.at == before {
                self.damaged = true;
                self.bump();
            }
        }
    }

    /// Skips everything that may stand between two commands: at most so many operators, and newlines.
    fn skip_separators(&mut self, mut permitted: u32) {
        loop {
            self.skip_lines();
            match self.peek() {
                b';' if self.starts_with(";;") => return,
                b';' => self.at += 1,
                b'&' if self.starts_with("&>") => return,
                b'&' if self.starts_with("&&") => self.at += 2,
                b'&' => self.at += 1,
                b'|' if self.starts_with("||") => self.at += 2,
                _ => return,
            }
            if permitted == 0 {
                self.damaged = true;
            }
            permitted = permitted.saturating_sub(1);
        }
    }

    fn pipeline(&mut self) -> Result<Option<Node>, Excess> {
        let mut commands = Vec::new();
        loop {
            self.skip_lines();
            while self.take_keyword("!") {
                self.skip_blanks();
            }
            match self.command()? {
                Some(node) => commands.push(node),
                None => self.damaged = true,
            }
            self.skip_blanks();
            let is_pipe = self.peek() == b'|' && self.peek_at(1) != b'|';
            if !is_pipe {
                break;
            }
            self.at += 1;
            self.take("&");
        }
        Ok(match commands.len() {
            0 => None,
            1 => commands.pop(),
            _ => Some(Node::Pipeline(commands)),
        })
    }
}
