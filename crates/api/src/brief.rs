//! Quoting a client in error messages.

/// How many characters of a client's input an error quotes.
const QUOTED: usize = 200;

/// The beginning of a client's input without control characters, for an error message.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_sent_is_repeated_in_part_and_without_control_characters() {
        let sent = format!("a\u{1b}[2J\n{}", "ä".repeat(5000));
        assert_eq!(quoted(&sent), format!("a[2J{}", "ä".repeat(QUOTED - 4)));
    }
}
