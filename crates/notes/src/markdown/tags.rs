//! Tags in the text.

use super::blocks::Outline;
use super::links::Link;
use crate::limits::MAX_TAG;

/// Whether a text, without `#`, is a tag: letters, digits, `_`, `-` and `/`, and not only digits.
pub fn is_tag(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_TAG
        && text.chars().all(is_tag_letter)
        && text.chars().any(|letter| !letter.is_numeric() && letter != '/')
        && !text.starts_with('/')
        && !text.ends_with('/')
}

fn is_tag_letter(letter: char) -> bool {
    letter.is_alphanumeric()
        || matches!(letter, '_' | '-' | '/')
        // Emoji and their joiners are allowed, as in Obsidian.
        || (letter as u32 > 0x2190 && !letter.is_whitespace() && !('\u{3000}'..='\u{303f}').contains(&letter)
            && !('\u{ff00}'..='\u{ff0f}').contains(&letter))
}

/// The tags of a text from the offset `from`, in order, without `#`, with the offset of each. A tag follows the beginning
/// of a line, a space or a parenthesis.
pub fn tags<'t>(text: &'t str, from: usize, outline: &Outline, links: &[Link]) -> Vec<(usize, &'t str)> {
    let mut hidden = outline.hidden.iter().peekable();
    let mut links = links.iter().peekable();
    let mut found = Vec::new();
    for (offset, _) in text.get(from..).unwrap_or_default().match_indices('#') {
        let at = from + offset;
        while hidden.next_if(|range| range.end <= at).is_some() {}
        // The destination of a link may go on with a heading.
        while links.next_if(|link| link.place.end < at).is_some() {}
        let is_heading_of_link =
            links.peek().is_some_and(|link| link.place.end == at || link.place.contains(&at));
        if is_heading_of_link || hidden.peek().is_some_and(|range| range.contains(&at)) {
            continue;
        }
        let before = text.get(from..at).and_then(|before| before.chars().next_back());
        if before.is_some_and(|letter| !letter.is_whitespace() && letter != '(')
            || text.get(..at).is_some_and(|before| before.ends_with("]("))
        {
            continue;
        }
        let rest = text.get(at + 1..).unwrap_or_default();
        let len = rest.find(|letter: char| !is_tag_letter(letter)).unwrap_or(rest.len());
        let tag = rest.get(..len).unwrap_or_default().trim_end_matches('/');
        if is_tag(tag) {
            found.push((at, tag));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{links, outline};
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        let outline = outline(text, 0);
        let links = links(text, 0, &outline);
        tags(text, 0, &outline, &links).into_iter().map(|(_, tag)| tag).collect()
    }

    #[test]
    fn tags_follow_spaces_and_are_not_headings_or_numbers() {
        let text = "#one a#no (#two) # no ##no #3 #4th #a/b/ #ümlaut, #x-y_z.\n# Heading\n";
        assert_eq!(found(text), ["one", "two", "4th", "a/b", "ümlaut", "x-y_z"]);
    }

    #[test]
    fn code_comments_and_links_have_no_tags() {
        let text = "`#a` %% #b %%\n```\n#c\n```\n[x](#d) [[n#e]] [y](n.md#f)\n#g\n";
        assert_eq!(found(text), ["g"]);
    }
}
