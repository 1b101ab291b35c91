//! Arguments as one line.

/// Joins arguments to a line that a shell splits into the same arguments.
pub fn quoted(argv: &[String]) -> String {
    argv.iter().map(|word| quoted_word(word)).collect::<Vec<_>>().join(" ")
}

fn quoted_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./-_".contains(c);
    // `a=b` as the first word would be a variable.
    if !word.is_empty() && word.chars().all(plain) && !word.contains('=') {
        return word.to_owned();
    }
    if word.chars().all(plain) && word.starts_with('-') {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        let line = |words: &[&str]| quoted(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["cargo", "test", "--features=a", "x/y.rs"]), "cargo test --features=a x/y.rs");
        assert_eq!(line(&["echo", "", "a b", "$HOME", "A=b", "~"]), "echo '' 'a b' '$HOME' 'A=b' '~'");
        assert_eq!(line(&["it's"]), r"'it'\''s'");
    }
}
