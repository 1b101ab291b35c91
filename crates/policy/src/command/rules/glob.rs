//! Patterns of names, arguments and paths.

/// A pattern: `?` is one character, `*` any number of them but no `/`, and `**` any number of any.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Glob {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Letter(char),
    Any,
    /// Zero or more characters; whether `/` is among them.
    Many(bool),
}

/// The longest pattern that is accepted.
pub(super) const MAX_PATTERN: usize = 256;

impl Glob {
    /// Reads a pattern in which `*` matches `/` as well, unless it is a pattern of paths.
    pub(super) fn new(pattern: &str, is_path: bool) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for letter in pattern.chars() {
            let part = match (letter, parts.last()) {
                ('*', Some(Part::Many(_))) => {
                    parts.pop();
                    Part::Many(true)
                }
                ('*', _) => Part::Many(!is_path),
                ('?', _) => Part::Any,
                (letter, _) => Part::Letter(letter),
            };
            parts.push(part);
        }
        Self { parts }
    }

    /// Whether the whole text matches. Takes at most the product of both lengths in steps.
    pub(super) fn matches(&self, text: &str) -> bool {
        // The set of positions in the pattern that the text so far can have reached.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip_many(&mut reached);
        for letter in text.chars() {
            let mut next = vec![false; self.parts.len() + 1];
            for (index, part) in self.parts.iter().enumerate().filter(|(index, _)| reached[*index]) {
                match part {
                    Part::Letter(known) if *known == letter => next[index + 1] = true,
                    Part::Any if letter != '/' => next[index + 1] = true,
                    Part::Many(slashes) if *slashes || letter != '/' => next[index] = true,
                    _ => {}
                }
            }
            self.skip_many(&mut next);
            reached = next;
        }
        reached[self.parts.len()]
    }

    fn skip_many(&self, reached: &mut [bool]) {
        for (index, part) in self.parts.iter().enumerate() {
            if reached[index] && matches!(part, Part::Many(_)) {
                reached[index + 1] = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        let path = |pattern: &str, text: &str| Glob::new(pattern, true).matches(text);
        assert!(path("/etc/*", "/etc/passwd"));
        assert!(!path("/etc/*", "/etc/ssh/config"));
        assert!(path("/etc/**", "/etc/ssh/config"));
        assert!(!path("/etc", "/etc/passwd"));
        assert!(path("**/.env", "/work/a/.env"));
        let name = |pattern: &str, text: &str| Glob::new(pattern, false).matches(text);
        assert!(name("git*", "git-lfs"));
        assert!(name("--force*", "--force-with-lease"));
        assert!(!name("pytho?", "python3"));
        assert!(name("*a*a*a*a*a*a*b", &format!("{}b", "a".repeat(200))));
    }
}
