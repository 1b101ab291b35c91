//! Error messages of bounded length.

/// Longer messages are cut: an error that quotes its input must not be as long as the input.
const LONGEST: usize = 3000;
/// How many bytes of the end are kept.
const END: usize = 1000;

/// A message, or its beginning and its end.
pub fn in_brief(message: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let begin = &message[..message.floor_char_boundary(LONGEST - END)];
    let end = &message[message.ceil_char_boundary(message.len() - END)..];
    format!("{begin} … ({} bytes left out) … {end}", message.len() - begin.len() - end.len())
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
}
