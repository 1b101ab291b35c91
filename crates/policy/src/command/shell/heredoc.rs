//! Here-documents.

use super::ast::{Piece, Word};
use super::cursor::{Excess, Parser};

impl Parser<'_> {
    /// Reads the delimiter behind `<<`, and the document from the lines below. The parser moves past these lines when it
    /// reaches the newline before them.
    pub(super) fn here_document(&mut self) -> Result<Word, Excess> {
        let strips_tabs = self.take("-");
        self.skip_blanks();
        let begins = self.at;
        let Some(delimiter) = self.word()? else {
            self.damaged = true;
            return Ok(Word::default());
        };
        let is_quoted = self.text[begins..self.at].contains(['\'', '"', '\\']);
        let delimiter = plain_text(&delimiter);
        let (newline, start) = match self.documents {
            Some(known) => known,
            None => {
                let Some(length) = self.rest().find('\n') else {
                    // The document is missing: the shell takes it as empty.
                    return Ok(Word::default());
                };
                (self.at + length, self.at + length + 1)
            }
        };
        let (body, behind) = document(self.text, start, &delimiter, strips_tabs);
        self.documents = Some((newline, behind));
        match is_quoted {
            true => Ok(Word::literal(body)),
            false => {
                let depth = self.depth;
                let (word, damaged) = self.nested(|_| {
                    let mut inner = Parser::new(body, depth + 1);
                    let pieces = inner.expanded_text(false)?;
                    Ok((Word { pieces }, inner.damaged))
                })?;
                self.damaged |= damaged;
                Ok(word)
            }
        }
    }
}

/// The document that starts at `start`, and the position behind its delimiter.
fn document<'t>(text: &'t str, start: usize, delimiter: &str, strips_tabs: bool) -> (&'t str, usize) {
    let mut at = start.min(text.len());
    while at < text.len() {
        let length = text[at..].find('\n').unwrap_or(text.len() - at);
        let line = &text[at..at + length];
        let shown = if strips_tabs { line.trim_start_matches('\t') } else { line };
        if shown.trim_end_matches('\r') == delimiter {
            return (&text[start..at], (at + length + 1).min(text.len()));
        }
        at += length + 1;
    }
    (&text[start.min(text.len())..], text.len())
}

fn plain_text(word: &Word) -> String {
    let texts = word.pieces.iter().map(|piece| match piece {
        Piece::Text { text, .. } => text.clone(),
        Piece::Parameter { name, .. } => format!("${name}"),
        _ => String::new(),
    });
    texts.collect()
}
