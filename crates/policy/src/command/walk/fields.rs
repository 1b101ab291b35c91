//! From words to arguments: braces, `~`, and splitting.

use super::super::shell::{Excess, Piece, Word};
use super::state::{Arg, Output, UNKNOWN, Walk};

/// How many arguments braces may make of one word, and how many characters together.
const MAX_BRACES: usize = 1024;
const MAX_BRACE_LETTERS: usize = 256 * 1024;

/// What the shell still does with a character.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Class {
    /// Everything: it stands in the line without quotes.
    Bare,
    /// It is split at blanks: it comes from an expansion without quotes.
    Split,
    /// Nothing.
    Quoted,
}

/// Text with what the shell still does to it.
#[derive(Debug, Default)]
pub(super) struct Text {
    letters: Vec<(char, Class)>,
    /// Whether a part came out of a decoder.
    pub hidden: bool,
    /// The output of a process substitution.
    pub process: Option<Output>,
}

impl Text {
    pub(super) fn push(&mut self, text: &str, class: Class) {
        self.letters.extend(text.chars().map(|letter| (letter, class)));
    }

    pub(super) fn push_unknown(&mut self, class: Class, hidden: bool) {
        self.letters.push((UNKNOWN, class));
        self.hidden |= hidden;
    }
}

/// The arguments that a word becomes.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub args: Vec<Arg>,
    pub hidden: bool,
    pub process: Option<Output>,
}

impl IntoIterator for Fields {
    type Item = Arg;
    type IntoIter = std::vec::IntoIter<Arg>;

    fn into_iter(self) -> Self::IntoIter {
        self.args.into_iter()
    }
}

impl Walk<'_> {
    /// Expands a word into arguments, and walks over the commands in it.
    pub(super) fn fields(&mut self, word: &Word) -> Result<Fields, Excess> {
        if let [Piece::Text { text, quoted }] = word.pieces.as_slice()
            && (*quoted || !text.starts_with('~') && !text.contains(['{', '*', '?', '[']))
        {
            self.step()?;
            return Ok(Fields { args: vec![Arg::known(text.as_str())], ..Fields::default() });
        }
        let mut text = Text::default();
        self.pieces(&word.pieces, &mut text, false)?;
        let has_quotes = word.pieces.iter().any(|piece| matches!(piece, Piece::Text { quoted: true, .. }));
        let mut args = Vec::new();
        let separators = self.get("IFS").filter(|set| set.len() < 16).unwrap_or_default();
        for letters in braces(text.letters)? {
            let letters = self.with_home(letters);
            split(&letters, &separators, has_quotes, &mut args);
        }
        for _ in &args {
            self.step()?;
        }
        Ok(Fields { args, hidden: text.hidden, process: text.process })
    }

    /// Expands a word into one argument, as in assignments and redirections.
    pub(super) fn single(&mut self, word: &Word) -> Result<(String, Text), Excess> {
        let mut text = Text::default();
        self.pieces(&word.pieces, &mut text, false)?;
        let letters = self.with_home(std::mem::take(&mut text.letters));
        Ok((letters.iter().map(|(letter, _)| *letter).collect(), text))
    }

    /// Replaces a `~` at the start.
    fn with_home(&self, letters: Vec<(char, Class)>) -> Vec<(char, Class)> {
        if letters.first() != Some(&('~', Class::Bare)) {
            return letters;
        }
        let user: String =
            letters[1..].iter().map(|(letter, _)| *letter).take_while(|letter| *letter != '/').collect();
        let home = match user.as_str() {
            "" => self.scope.home().to_owned(),
            "+" => self.state.cwd.clone(),
            "-" => self.state.previous_cwd.clone().unwrap_or_else(|| self.state.cwd.clone()),
            "root" => "/root".to_owned(),
            other => format!("/home/{other}"),
        };
        let rest = letters.into_iter().skip(1 + user.chars().count());
        home.chars().map(|letter| (letter, Class::Quoted)).chain(rest).collect()
    }
}

/// Splits at blanks that come from expansions.
fn split(letters: &[(char, Class)], separators: &str, has_quotes: bool, args: &mut Vec<Arg>) {
    let mut text = String::new();
    let mut is_open = has_quotes;
    let mut certain = has_quotes;
    let mut is_pattern = false;
    for (letter, class) in letters {
        if *class == Class::Split && (matches!(letter, ' ' | '\t' | '\n') || separators.contains(*letter)) {
            if is_open && (!text.is_empty() || certain) {
                args.push(Arg { text: std::mem::take(&mut text), optional: !certain, is_pattern });
            }
            is_open = false;
            certain = false;
            is_pattern = false;
            continue;
        }
        is_open = true;
        is_pattern |= *class != Class::Quoted && matches!(letter, '*' | '?' | '[');
        certain |= *letter != UNKNOWN || *class != Class::Split;
        text.push(*letter);
    }
    if is_open && (!text.is_empty() || certain) {
        args.push(Arg { text, optional: !certain, is_pattern });
    }
}

/// Expands `{a,b}` and leaves everything else as it is.
fn braces(letters: Vec<(char, Class)>) -> Result<Vec<Vec<(char, Class)>>, Excess> {
    let mut done = Vec::new();
    let mut waiting = vec![letters];
    while let Some(letters) = waiting.pop() {
        let Some(bounds) = first_brace(&letters) else {
            done.push(letters);
            continue;
        };
        let parts = bounds.len() - 1;
        let count = done.len() + waiting.len() + parts;
        if count > MAX_BRACES || parts * letters.len() > MAX_BRACE_LETTERS {
            return Err(Excess::Steps);
        }
        let (start, end) = (bounds[0], bounds[parts]);
        // The last one is expanded first, so that the order is kept.
        waiting.extend(bounds.windows(2).rev().map(|pair| {
            let inner = &letters[pair[0] + 1..pair[1]];
            [&letters[..start], inner, &letters[end + 1..]].concat()
        }));
    }
    Ok(done)
}

/// The positions of the first brace, its commas and its closing brace.
fn first_brace(letters: &[(char, Class)]) -> Option<Vec<usize>> {
    let mut bounds = Vec::new();
    let mut depth = 0;
    for (index, (letter, class)) in letters.iter().enumerate() {
        if *class != Class::Bare {
            continue;
        }
        match letter {
            '{' if depth == 0 => {
                bounds = vec![index];
                depth = 1;
            }
            '{' => depth += 1,
            ',' if depth == 1 => bounds.push(index),
            '}' if depth == 1 && bounds.len() > 1 => {
                bounds.push(index);
                return Some(bounds);
            }
            '}' if depth > 0 => depth -= 1,
            _ => {}
        }
    }
    None
}
