//! From words to a line for the shell.

/// One word is a line already; several become one that runs them in the shell's place, so that signals reach the
/// command itself.
pub fn shell_line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => format!("exec {}", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:,@%+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_it_was_given() {
        for words in [
            &["printf", "%s|", "a b", "it's", "", "$HOME", "*", "-n", "\n;"][..],
            &["printf", "%s|", "'\"\\`", "ü"],
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let line = shell_line(&words);
            let said = std::process::Command::new("sh").args(["-c", &line]).output().unwrap().stdout;
            let expected: String = words[2..].iter().map(|word| format!("{word}|")).collect();
            assert_eq!(String::from_utf8(said).unwrap(), expected, "{line}");
        }
        assert_eq!(shell_line(&["a; b".to_owned()]), "a; b");
    }
}
