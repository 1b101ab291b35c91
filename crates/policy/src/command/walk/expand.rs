//! The values of parameters and substitutions.

use super::super::shell::{Change, Excess, Piece, Word};
use super::fields::{Class, Text};
use super::state::{Input, Output, Streams, UNKNOWN, Walk};

/// Values longer than this are not followed.
const MAX_VALUE: usize = 32 * 1024;

impl Walk<'_> {
    /// Sets a variable.
    pub(super) fn set(&mut self, name: &str, value: String) {
        let value = if value.len() > MAX_VALUE { UNKNOWN.to_string() } else { value };
        match self.state.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.state.variables.push((name.to_owned(), value)),
        }
    }

    /// The value of a variable or special parameter, if it is known.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        if let Some((_, value)) = self.state.variables.iter().find(|(known, _)| known == name) {
            return Some(value.clone());
        }
        Some(match name {
            "HOME" => self.scope.home().to_owned(),
            "PWD" => self.state.cwd.clone(),
            "OLDPWD" => self.state.previous_cwd.clone()?,
            "TMPDIR" | "TMP" | "TEMP" => "/tmp".to_owned(),
            "IFS" => " \t\n".to_owned(),
            "PATH" => "/usr/local/bin:/usr/bin:/bin".to_owned(),
            "SHELL" => "/bin/bash".to_owned(),
            "0" => "bash".to_owned(),
            "@" | "*" => self.state.positional.join(" "),
            "#" => self.state.positional.len().to_string(),
            "?" | "$" | "!" | "_" | "RANDOM" | "UID" | "EUID" | "PPID" | "SECONDS" | "LINENO" => {
                "1".to_owned()
            }
            "-" => "hB".to_owned(),
            digit if digit.len() < 3 && digit.bytes().all(|byte| byte.is_ascii_digit()) => {
                let index: usize = digit.parse().ok()?;
                self.state.positional.get(index.checked_sub(1)?).cloned().unwrap_or_default()
            }
            _ => return None,
        })
    }

    /// Expands the parts of a word, and walks over the commands in it.
    pub(super) fn pieces(
        &mut self,
        pieces: &[Piece],
        out: &mut Text,
        within_quotes: bool,
    ) -> Result<(), Excess> {
        for piece in pieces {
            self.step()?;
            match piece {
                Piece::Text { text, quoted } => {
                    out.push(text, if *quoted || within_quotes { Class::Quoted } else { Class::Bare });
                }
                Piece::Parameter { name, change, quoted } => {
                    let quoted = *quoted || within_quotes;
                    self.parameter(name, change, quoted, out)?;
                }
                Piece::Command { body, quoted } => {
                    let output = self.captured(|walk| {
                        walk.subshell(|walk| {
                            walk.list(body, &Streams { captured: true, ..Streams::default() })
                        })
                    })?;
                    let class = if *quoted || within_quotes { Class::Quoted } else { Class::Split };
                    match output.text {
                        Some(text) => out.push(text.trim_end_matches('\n'), class),
                        None => out.push_unknown(class, output.hidden),
                    }
                }
                Piece::Process { body, reads } => {
                    let input = if *reads { Input::Unknown { hidden: false } } else { Input::Terminal };
                    let streams = Streams { input, captured: true, saved: false };
                    let output = self.captured(|walk| walk.subshell(|walk| walk.list(body, &streams)))?;
                    out.process = Some(output);
                    out.push("/dev/fd/63", Class::Quoted);
                }
                Piece::Evaluated(inner) => {
                    let mut ignored = Text::default();
                    self.pieces(inner, &mut ignored, true)?;
                }
                Piece::Arithmetic(inner) => {
                    let mut ignored = Text::default();
                    self.pieces(inner, &mut ignored, true)?;
                    // A number: never a flag or a path.
                    out.push("1", Class::Quoted);
                }
            }
        }
        Ok(())
    }

    /// Walks over commands whose output the shell takes.
    fn captured(&mut self, walk: impl FnOnce(&mut Self) -> Result<Output, Excess>) -> Result<Output, Excess> {
        let waits = self.pager_waits;
        let result = walk(self);
        self.pager_waits = waits;
        result
    }

    fn parameter(&mut self, name: &str, change: &Change, quoted: bool, out: &mut Text) -> Result<(), Excess> {
        let class = if quoted { Class::Quoted } else { Class::Split };
        let value = self.get(name);
        match change {
            Change::None => match value {
                Some(value) => out.push(&value, class),
                None => out.push_unknown(class, false),
            },
            Change::Default(word) => match value.filter(|value| !value.is_empty()) {
                Some(value) => {
                    self.discard(word)?;
                    out.push(&value, class);
                }
                // An unknown variable is most likely not set.
                None => self.pieces(&word.pieces, out, quoted)?,
            },
            Change::Alternative(word) => match value {
                Some(value) if value.is_empty() => self.discard(word)?,
                _ => self.pieces(&word.pieces, out, quoted)?,
            },
            Change::Slice(offset, length) => match value.and_then(|value| slice(&value, *offset, *length)) {
                Some(part) => out.push(&part, class),
                None => out.push_unknown(class, false),
            },
            Change::Replace { from, to, all } => match value {
                Some(value) if *all => out.push(&value.replace(from.as_str(), to), class),
                Some(value) => out.push(&value.replacen(from.as_str(), to, 1), class),
                None => out.push_unknown(class, false),
            },
            Change::Trim { pattern, from_end, is_longest } => {
                match value.as_deref().and_then(|value| trimmed(value, pattern, *from_end, *is_longest)) {
                    Some(part) => out.push(&part, class),
                    None => out.push_unknown(class, false),
                }
            }
            Change::Prompt => {
                if let Some(value) = value.filter(|value| value.contains(['$', '`'])) {
                    let line = format!(": \"{}\"", value.replace('"', ""));
                    self.subshell(|walk| walk.text(&line, Streams { captured: true, ..Streams::default() }))?;
                }
                out.push_unknown(class, false);
            }
            Change::Unknown(word) => {
                self.discard(word)?;
                out.push_unknown(class, false);
            }
        }
        Ok(())
    }

    /// Expands a word only for the commands in it.
    fn discard(&mut self, word: &Word) -> Result<(), Excess> {
        let mut ignored = Text::default();
        self.pieces(&word.pieces, &mut ignored, true)
    }
}

/// A value without what a pattern of letters and `*` matches at one end.
fn trimmed(value: &str, pattern: &str, from_end: bool, is_longest: bool) -> Option<String> {
    if value.contains(UNKNOWN) || pattern.contains(['?', '[', '\\']) || value.len() > 4096 {
        return None;
    }
    let matches = |part: &str| {
        let mut rest = part;
        let mut sections = pattern.split('*').peekable();
        let first = sections.next().unwrap_or_default();
        let Some(behind) = rest.strip_prefix(first) else { return false };
        rest = behind;
        if sections.peek().is_none() {
            return rest.is_empty();
        }
        while let Some(section) = sections.next() {
            if sections.peek().is_none() {
                return rest.ends_with(section);
            }
            let Some(at) = rest.find(section) else { return false };
            rest = &rest[at + section.len()..];
        }
        true
    };
    let cuts = (0..=value.len()).filter(|at| value.is_char_boundary(*at));
    // From the end, a later cut matches less.
    let found = match (from_end, is_longest) {
        (true, false) => cuts.rev().find(|at| matches(&value[*at..])),
        (true, true) => cuts.into_iter().find(|at| matches(&value[*at..])),
        (false, false) => cuts.into_iter().find(|at| matches(&value[..*at])),
        (false, true) => cuts.rev().find(|at| matches(&value[..*at])),
    };
    Some(match found {
        None => value.to_owned(),
        Some(at) if from_end => value[..at].to_owned(),
        Some(at) => value[at..].to_owned(),
    })
}

fn slice(value: &str, offset: i64, length: Option<i64>) -> Option<String> {
    if value.contains(UNKNOWN) {
        return None;
    }
    let letters: Vec<char> = value.chars().collect();
    let size = i64::try_from(letters.len()).ok()?;
    let start = if offset < 0 { size + offset } else { offset };
    let end = match length {
        None => size,
        Some(length) if length < 0 => size + length,
        Some(length) => start.saturating_add(length).min(size),
    };
    let range = usize::try_from(start).ok()?..usize::try_from(end).ok()?;
    Some(letters.get(range).unwrap_or_default().iter().collect())
}
