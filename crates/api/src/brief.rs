//! Messages of a bearable length.

/// Whatever is longer is cut: a failure that repeats what it was given must not be as long as that.
const LONGEST: usize = 3000;
/// How much of the end is kept.
const END: usize = 1000;

/// A message, or its beginning and its end.
pub(crate) fn in_brief(message: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let begin = &message[..message.floor_char_boundary(LONGEST - END)];
    let end = &message[message.ceil_char_boundary(message.len() - END)..];
    format!("{begin} … ({} bytes left out) … {end}", message.len() - begin.len() - end.len())
}

/// How much of what a client sent is repeated in an error.
const QUOTED: usize = 200;

/// What a client sent, as it is repeated in an error: its beginning, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_has_its_beginning_and_its_end_and_says_how_much_is_left_out() {
        assert_eq!(in_brief("short"), "short");
        let long = format!("begin{}end", "ä".repeat(5000));
        let brief = in_brief(&long);
        assert!(brief.starts_with("beginä") && brief.ends_with("äend") && brief.len() < 3100, "{brief}");
        let kept = brief.replace(" … (7010 bytes left out) … ", "");
        assert_eq!(kept.len() + 7010, long.len(), "{brief}");
    }

    #[test]
    fn what_a_client_sent_is_repeated_in_part_and_without_control_characters() {
        let sent = format!("a\u{1b}[2J\n{}", "ä".repeat(5000));
        assert_eq!(quoted(&sent), format!("a[2J{}", "ä".repeat(QUOTED - 4)));
    }
}
