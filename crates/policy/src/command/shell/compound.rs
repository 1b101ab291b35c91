//! Compound commands and functions.

use std::rc::Rc;

use super::ast::{List, Node, Piece, Redirect, Word};
use super::cursor::{Excess, Parser, ends_word};

impl Parser<'_> {
    /// Reads one command, or nothing if none begins here.
    pub(super) fn command(&mut self) -> Result<Option<Node>, Excess> {
        self.nested(|parser| parser.command_here())
    }

    fn command_here(&mut self) -> Result<Option<Node>, Excess> {
        if self.starts_with("((") && self.closes_doubly(self.at + 2) {
            self.at += 2;
            let pieces = self.arithmetic()?;
            let words = vec![Word { pieces }];
            return Ok(Some(Node::Test { words, redirects: self.redirects()? }));
        }
        if self.take("(") {
            let body = self.list(&[])?;
            self.expect(")");
            return Ok(Some(Node::Group { body, subshell: true, redirects: self.redirects()? }));
        }
        if self.take_keyword("{") {
            return self.body_until(&["}"]).map(Some);
        }
        if self.take_keyword("if") {
            return self.body_until(&["fi"]).map(Some);
        }
        if self.take_keyword("while") || self.take_keyword("until") {
            return self.body_until(&["done"]).map(Some);
        }
        if self.take_keyword("coproc") {
            self.skip_blanks();
            return self.command();
        }
        if self.take_keyword("for") {
            return self.for_loop(false).map(Some);
        }
        if self.take_keyword("select") {
            return self.for_loop(true).map(Some);
        }
        if self.take_keyword("case") {
            return self.case().map(Some);
        }
        if self.take_keyword("[[") {
            return self.condition().map(Some);
        }
        if self.take_keyword("function") {
            self.skip_blanks();
            let name = self.name();
            self.skip_blanks();
            if self.take("(") {
                self.skip_blanks();
                self.expect(")");
            }
            return self.function(name).map(Some);
        }
        if let Some(name) = self.function_name() {
            return self.function(name).map(Some);
        }
        self.simple()
    }

    pub(super) fn expect(&mut self, closer: &str) {
        if !self.take(closer) {
            self.damaged = true;
        }
    }

    /// Reads lists up to the last of `ends`. `then`, `do`, `else` and `elif` only separate lists.
    fn body_until(&mut self, ends: &[&str]) -> Result<Node, Excess> {
        let mut body = List::new();
        loop {
            body.extend(self.list(&["then", "elif", "else", "do", ends[0]])?);
            if self.take_keyword(ends[0]) {
                break;
            }
            let separator = ["then", "elif", "else", "do"].iter().any(|word| self.take_keyword(word));
            if !separator {
                self.damaged = true;
                break;
            }
        }
        Ok(Node::Group { body, subshell: false, redirects: self.redirects()? })
    }

    fn for_loop(&mut self, asks: bool) -> Result<Node, Excess> {
        self.skip_blanks();
        let mut words = Vec::new();
        let mut name = String::new();
        if self.starts_with("((") {
            self.at += 2;
            let pieces = self.arithmetic()?;
            words.push(Word { pieces });
        } else {
            name = self.name();
            self.skip_lines();
            if self.take_keyword("in") {
                loop {
                    self.skip_blanks();
                    match self.word()? {
                        Some(word) => words.push(word),
                        None => break,
                    }
                }
            } else {
                // Without `in`, the positional parameters.
                words.push(Word {
                    pieces: vec![Piece::Parameter {
                        name: "@".to_owned(),
                        change: super::Change::None,
                        quoted: true,
                    }],
                });
            }
        }
        self.skip_lines();
        self.take(";");
        self.skip_lines();
        let (body, redirects) = if self.take_keyword("do") {
            match self.body_until(&["done"])? {
                Node::Group { body, redirects, .. } => (body, redirects),
                other => (vec![other], Vec::new()),
            }
        } else if self.take_keyword("{") {
            match self.body_until(&["}"])? {
                Node::Group { body, redirects, .. } => (body, redirects),
                other => (vec![other], Vec::new()),
            }
        } else {
            self.damaged = true;
            (List::new(), Vec::new())
        };
        Ok(Node::For { name, words, body, asks, redirects })
    }

    fn case(&mut self) -> Result<Node, Excess> {
        let mut words = Vec::new();
        let mut body = List::new();
        self.skip_blanks();
        words.extend(self.word()?);
        self.skip_lines();
        if !self.take_keyword("in") {
            self.damaged = true;
        }
        loop {
            self.skip_lines();
            if self.take_keyword("esac") {
                break;
            }
            if self.is_at_end() {
                self.damaged = true;
                break;
            }
            self.take("(");
            loop {
                self.skip_blanks();
                match self.word()? {
                    Some(pattern) => words.push(pattern),
                    None => break,
                }
                self.skip_blanks();
                if !self.take("|") {
                    break;
                }
            }
            let before = self.at;
            self.expect(")");
            body.extend(self.list(&["esac"])?);
            let _ = self.take(";;&") || self.take(";;") || self.take(";&");
            if self.at == before {
                self.bump();
            }
        }
        Ok(Node::Case { words, body, redirects: self.redirects()? })
    }

    /// The words between `[[` and `]]`. `<`, `>`, `(` and `|` are operators of the condition.
    fn condition(&mut self) -> Result<Node, Excess> {
        let mut words = Vec::new();
        loop {
            self.skip_lines();
            if self.take("]]") {
                break;
            }
            if self.is_at_end() || self.peek() == b';' {
                self.damaged = true;
                break;
            }
            match self.word()? {
                Some(word) => words.push(word),
                None => {
                    self.bump();
                }
            }
        }
        Ok(Node::Test { words, redirects: self.redirects()? })
    }

    fn name(&mut self) -> String {
        let length = self.rest().bytes().take_while(|byte| !ends_word(*byte)).count();
        let name = self.rest()[..length].to_owned();
        self.at += length;
        name
    }

    /// Reads `NAME ()`, if that is next.
    fn function_name(&mut self) -> Option<String> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|byte| !ends_word(*byte)).count();
        let name = &rest[..length];
        let behind = rest[length..].trim_start_matches([' ', '\t']);
        let inner = behind.strip_prefix('(')?.trim_start_matches([' ', '\t']);
        let after = inner.strip_prefix(')')?;
        let is_name = !name.is_empty() && !name.contains(['$', '\'', '"', '`', '=', '\\']);
        if !is_name {
            return None;
        }
        let name = name.to_owned();
        self.at = self.text.len() - after.len();
        Some(name)
    }

    fn function(&mut self, name: String) -> Result<Node, Excess> {
        self.skip_lines();
        let body = match self.command()? {
            Some(node) => vec![node],
            None => {
                self.damaged = true;
                List::new()
            }
        };
        Ok(Node::Function { name, body: Rc::new(body) })
    }

    pub(super) fn redirects(&mut self) -> Result<Vec<Redirect>, Excess> {
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }
}
