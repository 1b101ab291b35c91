//! Languages that can be read: `sed` and `awk`.

use super::super::Categories;
use super::super::shell::Excess;
use super::judged::Judged;
use super::state::{Streams, UNKNOWN, Walk};

impl Walk<'_> {
    /// A program for `sed`: `w`, `e`, and the same as flags of `s`.
    pub(super) fn sed(&mut self, script: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        if script == UNKNOWN.to_string() {
            judged.add(Categories::MUTATING, "the script is not known before the command runs");
            return Ok(());
        }
        let letters: Vec<char> = script.chars().collect();
        let mut at = 0;
        while at < letters.len() {
            let letter = letters[at];
            at += 1;
            match letter {
                '/' => at = section(&letters, at, '/'),
                '\\' => at = letters.get(at).map_or(at, |mark| section(&letters, at + 1, *mark)),
                's' | 'y' => {
                    let Some(mark) = letters.get(at) else { continue };
                    let start = section(&letters, at + 1, *mark);
                    at = section(&letters, start, *mark);
                    if self.drafts.len() < 16 {
                        let text: String =
                            letters[start.min(letters.len())..at.min(letters.len())].iter().collect();
                        self.drafts.push(text.trim_end_matches(*mark).replace('&', " x "));
                    }
                    while let Some(flag) = letters.get(at) {
                        match flag {
                            'e' if letter == 's' => {
                                judged.add(Categories::MUTATING, "sed runs what it replaces");
                                let end = at.min(letters.len());
                                let made: String = letters[start.min(end)..end].iter().collect();
                                let made = made.split(*mark).next().unwrap_or_default().to_owned();
                                self.subshell(|walk| walk.text(&made, Streams::default()))?;
                            }
                            'w' => {
                                let (file, end) = line(&letters, at + 1);
                                self.judge_written(file.trim(), judged);
                                at = end;
                                break;
                            }
                            flag if flag.is_alphanumeric() => {}
                            _ => break,
                        }
                        at += 1;
                    }
                }
                'w' | 'W' => {
                    let (file, end) = line(&letters, at);
                    self.judge_written(file.trim(), judged);
                    at = end;
                }
                'r' | 'R' => {
                    let (file, end) = line(&letters, at);
                    self.judge_path(file.trim(), false, judged);
                    at = end;
                }
                'e' => {
                    judged.add(Categories::MUTATING, "sed runs a command");
                    let (command, end) = line(&letters, at);
                    self.subshell(|walk| walk.text(&command, Streams::default()))?;
                    at = end;
                }
                'a' | 'i' | 'c' => at = line(&letters, at).1,
                'b' | 't' | 'T' | ':' => {
                    while letters.get(at).is_some_and(|next| !matches!(next, ';' | '}' | '\n')) {
                        at += 1;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A program for `awk`: `system`, pipes and output files.
    pub(super) fn awk(&mut self, script: &str, judged: &mut Judged) -> Result<(), Excess> {
        self.step()?;
        if script == UNKNOWN.to_string() {
            judged.add(Categories::MUTATING, "the program is not known before the command runs");
            return Ok(());
        }
        let (bare, strings) = without_strings(script);
        if bare.contains("print") {
            // `print "rm " $1` for a shell behind the pipe.
            self.drafts.extend(strings.iter().take(16).map(|text| format!("{text}{UNKNOWN}")));
        }
        let runs = bare.contains("system") || pipes(&bare);
        if runs {
            judged.add(Categories::MUTATING, "awk runs a command");
            for line in &strings {
                self.subshell(|walk| walk.text(line, Streams { captured: true, ..Streams::default() }))?;
            }
        }
        if bare.contains("/inet/") || strings.iter().any(|text| text.starts_with("/inet")) {
            judged.add(Categories::NETWORKED, "awk opens a connection");
        }
        if prints_to_file(&bare) {
            match strings.is_empty() {
                true => judged.add(Categories::MUTATING, "awk writes a file"),
                false => {
                    for file in &strings {
                        self.judge_written(file, judged);
                    }
                }
            }
        } else if bare.contains("getline") {
            for file in &strings {
                self.judge_argument(file, false, judged);
            }
        }
        Ok(())
    }
}

/// The position behind the next unescaped mark.
fn section(letters: &[char], from: usize, mark: char) -> usize {
    let mut at = from;
    while let Some(letter) = letters.get(at) {
        at += 1;
        match letter {
            '\\' => at += 1,
            letter if *letter == mark => break,
            _ => {}
        }
    }
    at
}

/// The rest of the line, and the position behind it.
fn line(letters: &[char], from: usize) -> (String, usize) {
    let length = letters.get(from..).unwrap_or_default().iter().take_while(|letter| **letter != '\n').count();
    (letters.iter().skip(from).take(length).collect(), from + length + 1)
}

/// An `awk` program with `"` for every string and without regular expressions, and the strings.
fn without_strings(script: &str) -> (String, Vec<String>) {
    let letters: Vec<char> = script.chars().collect();
    let mut bare = String::new();
    let mut strings = Vec::new();
    let mut at = 0;
    while at < letters.len() {
        let letter = letters[at];
        at += 1;
        let before = bare.trim_end().chars().next_back();
        let begins_regex = letter == '/' && before.is_none_or(|before| "(~,{!&|;=\n}".contains(before));
        if letter == '"' || begins_regex {
            let end = section(&letters, at, letter);
            let inner: String = letters[at..end.saturating_sub(1).clamp(at, letters.len())].iter().collect();
            at = end;
            if letter == '"' {
                bare.push('"');
                strings.push(inner);
            } else {
                bare.push('r');
            }
        } else if letter == '#' {
            at = line(&letters, at).1;
            bare.push('\n');
        } else {
            bare.push(letter);
        }
    }
    (bare, strings)
}

/// Whether a single `|` stands in the program.
fn pipes(bare: &str) -> bool {
    let bytes = bare.as_bytes();
    bytes.iter().enumerate().any(|(index, byte)| {
        *byte == b'|' && bytes.get(index + 1) != Some(&b'|') && (index == 0 || bytes[index - 1] != b'|')
    })
}

/// Whether a `print` has a `>` behind it outside parentheses.
fn prints_to_file(bare: &str) -> bool {
    let mut prints = false;
    let mut depth = 0i32;
    for (at, letter) in bare.char_indices() {
        match letter {
            'p' if bare[at..].starts_with("print") => (prints, depth) = (true, 0),
            '(' => depth += 1,
            ')' => depth -= 1,
            ';' | '}' | '\n' => prints = false,
            '>' if prints && depth <= 0 => return true,
            _ => {}
        }
    }
    false
}
