//! Command lines: as much of a shell's language as tests need.
//!
//! Commands are separated by `;`, `&&`, `||` and ends of lines. Words may be quoted and may contain `$NAME`. Standard
//! output and standard error may be redirected. Everything else is not understood and ends up as a word.

/// A command of a line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Command {
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
    pub when: When,
}

/// Whether a command runs after the one before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum When {
    Always,
    Succeeded,
    Failed,
}

/// A word before it is expanded.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Word(Vec<Piece>);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(String),
    Variable(String),
}

/// Where an output of a command goes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Redirect {
    /// 1 or 2.
    pub from: u8,
    pub to: Target,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Target {
    Stream(u8),
    File { path: Word, append: bool },
}

impl Word {
    /// The word with its variables replaced.
    pub fn expand(&self, value: impl Fn(&str) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Variable(name) => value(name),
        };
        self.0.iter().map(piece).collect()
    }

    fn text(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }
}

impl Command {
    /// A command of plain words.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let words = words.into_iter().map(Word::text).collect();
        Self { words, redirects: Vec::new(), when: When::Always }
    }
}

/// Splits a line into its commands.
pub(super) fn parse(line: &str) -> Vec<Command> {
    let mut parser = Parser { left: line.chars().collect(), ..Parser::default() };
    parser.left.reverse();
    while let Some(next) = parser.left.pop() {
        parser.take(next);
    }
    parser.end_command(When::Always);
    parser.commands
}

#[derive(Default)]
struct Parser {
    /// What has not been looked at, last character first.
    left: Vec<char>,
    commands: Vec<Command>,
    words: Vec<Word>,
    redirects: Vec<Redirect>,
    word: Option<Word>,
    /// The redirect whose file name comes next.
    redirect: Option<(u8, bool)>,
    when: Option<When>,
}

impl Parser {
    fn take(&mut self, next: char) {
        match next {
            ' ' | '\t' => self.end_word(),
            '\n' | ';' => self.end_command(When::Always),
            '&' if self.follows('&') => self.end_command(When::Succeeded),
            '|' if self.follows('|') => self.end_command(When::Failed),
            '\'' => {
                self.add("");
                while let Some(quoted) = self.left.pop().filter(|next| *next != '\'') {
                    self.add(&quoted.to_string());
                }
            }
            '"' => {
                self.add("");
                while let Some(quoted) = self.left.pop().filter(|next| *next != '"') {
                    if quoted == '$' { self.variable() } else { self.add(&quoted.to_string()) }
                }
            }
            '\\' => {
                let escaped = self.left.pop().unwrap_or('\\');
                self.add(&escaped.to_string());
            }
            '$' => self.variable(),
            '>' => self.redirect(1),
            '1' | '2' if self.word.is_none() && self.follows('>') => {
                self.redirect(if next == '1' { 1 } else { 2 });
            }
            other => self.add(&other.to_string()),
        }
    }

    /// Takes the next character if it is this one.
    fn follows(&mut self, wanted: char) -> bool {
        let follows = self.left.last() == Some(&wanted);
        if follows {
            self.left.pop();
        }
        follows
    }

    fn redirect(&mut self, from: u8) {
        self.end_word();
        if self.follows('&') {
            let to = if self.follows('2') {
                2
            } else {
                self.follows('1');
                1
            };
            self.redirects.push(Redirect { from, to: Target::Stream(to) });
        } else {
            self.redirect = Some((from, self.follows('>')));
        }
    }

    fn variable(&mut self) {
        let mut name = String::new();
        let braced = self.follows('{');
        while let Some(next) = self.left.last().copied() {
            let special = name.is_empty() && matches!(next, '$' | '?');
            if !(next.is_ascii_alphanumeric() || next == '_' || special) {
                break;
            }
            name.push(next);
            self.left.pop();
            if special || name.starts_with(|first: char| first.is_ascii_digit()) {
                break;
            }
        }
        if braced {
            self.follows('}');
        }
        let piece = if name.is_empty() { Piece::Text("$".to_owned()) } else { Piece::Variable(name) };
        self.word.get_or_insert_default().0.push(piece);
    }

    fn add(&mut self, text: &str) {
        self.word.get_or_insert_default().0.push(Piece::Text(text.to_owned()));
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match self.redirect.take() {
            Some((from, append)) => {
                self.redirects.push(Redirect { from, to: Target::File { path: word, append } });
            }
            None => self.words.push(word),
        }
    }

    /// Ends a command; `then` says when the next one runs.
    fn end_command(&mut self, then: When) {
        self.end_word();
        let when = self.when.replace(then).unwrap_or(When::Always);
        if !self.words.is_empty() || !self.redirects.is_empty() {
            let (words, redirects) = (std::mem::take(&mut self.words), std::mem::take(&mut self.redirects));
            self.commands.push(Command { words, redirects, when });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<String>> {
        let value = |name: &str| format!("<{name}>");
        let expand = |command: Command| command.words.iter().map(|word| word.expand(value)).collect();
        parse(line).into_iter().map(expand).collect()
    }

    #[test]
    fn lines_are_split_as_a_shell_splits_them() {
        assert_eq!(words("echo a  'b c' \"d $E\" ${F}g '$H'"), [["echo", "a", "b c", "d <E>", "<F>g", "$H"]]);
        assert_eq!(words("a; b && c\nd || e"), [["a"], ["b"], ["c"], ["d"], ["e"]]);
        assert_eq!(words("kill -9 $$ ''"), [["kill", "-9", "<$>", ""]]);
        assert_eq!(words(" ; \n"), Vec::<Vec<String>>::new());
        let when: Vec<When> = parse("a; b && c || d").iter().map(|command| command.when).collect();
        assert_eq!(when, [When::Always, When::Always, When::Succeeded, When::Failed]);
    }

    #[test]
    fn redirects_are_told_from_words() {
        let commands = parse("echo 2 >&2 x 2>/dev/null >> f");
        assert_eq!(commands[0].words.len(), 3);
        let file = |path: &str, append| Target::File { path: parse(path)[0].words[0].clone(), append };
        assert_eq!(
            commands[0].redirects,
            [
                Redirect { from: 1, to: Target::Stream(2) },
                Redirect { from: 2, to: file("/dev/null", false) },
                Redirect { from: 1, to: file("f", true) },
            ]
        );
    }
}
