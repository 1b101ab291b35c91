//! Edits of one section that leave every other byte alone.

use super::blocks::{Heading, Outline};

/// How a section is edited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SectionEdit {
    /// Adds to the end of the section, with its subsections.
    Append,
    /// Replaces what is below the heading, with its subsections; the heading stays.
    Replace,
    /// Inserts before the heading.
    Before,
    /// Inserts directly below the heading.
    After,
}

/// Why no section was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum SectionError {
    /// No heading matches.
    NotFound,
    /// Several match, at these lines.
    Ambiguous(Vec<usize>),
}

/// Edits the section of a heading. The heading is given by its text, or by that and those above it, separated by `#`.
pub fn edit_section(
    text: &str,
    outline: &Outline,
    heading: &str,
    edit: SectionEdit,
    content: &str,
) -> Result<String, SectionError> {
    let index = find(&outline.headings, heading)?;
    let Some(found) = outline.headings.get(index) else { return Err(SectionError::NotFound) };
    let after = outline.headings.get(index + 1..).unwrap_or_default();
    let next = after.iter().find(|later| later.level <= found.level);
    let end = next.map_or(text.len(), |next| next.span.start);
    let range = match edit {
        SectionEdit::Before => found.span.start..found.span.start,
        SectionEdit::After => found.span.end..found.span.end,
        SectionEdit::Replace => found.span.end..end,
        SectionEdit::Append => {
            let body = text.get(found.span.end..end).unwrap_or_default();
            // Blank lines before the next heading stay before it.
            let at = found.span.end + content_len(body);
            at..at
        }
    };
    let (before, behind) =
        (text.get(..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    Ok(join(before, content, behind))
}

/// The length of a text without blank lines at its end.
fn content_len(text: &str) -> usize {
    let kept = text.trim_end().len();
    let rest = text.get(kept..).unwrap_or_default();
    if kept == 0 {
        return 0;
    }
    kept + rest.find('\n').map_or(rest.len(), |at| at + 1)
}

/// Puts a content between two parts of a text, on lines of its own.
pub(crate) fn join(before: &str, content: &str, behind: &str) -> String {
    let is_crlf = before.contains("\r\n") || behind.contains("\r\n");
    let line_break = if is_crlf { "\r\n" } else { "\n" };
    let mut text = String::with_capacity(before.len() + content.len() + behind.len() + 4);
    text.push_str(before);
    if content.is_empty() {
        text.push_str(behind);
        return text;
    }
    if !before.is_empty() && !before.ends_with('\n') {
        text.push_str(line_break);
    }
    if is_crlf {
        text.push_str(&content.replace("\r\n", "\n").replace('\n', "\r\n"));
    } else {
        text.push_str(content);
    }
    if !behind.is_empty() && !text.ends_with('\n') {
        text.push_str(line_break);
    }
    text.push_str(behind);
    text
}

/// Whether a heading, with its place among all, is the wanted one.
type Matches<'m> = dyn Fn(usize, &Heading) -> bool + 'm;

fn find(headings: &[Heading], wanted: &str) -> Result<usize, SectionError> {
    let wanted = wanted.trim();
    let bare = wanted.trim_start_matches('#').trim_start();
    let ways: [&Matches<'_>; 4] = [
        &|_, heading| heading.text == wanted,
        &|_, heading| heading.text == bare,
        &|_, heading| heading.text.to_lowercase() == bare.to_lowercase(),
        &|index, _| is_path(headings, index, bare),
    ];
    for matches in ways {
        let found: Vec<usize> =
            (0..).zip(headings).filter(|(i, heading)| matches(*i, heading)).map(|(i, _)| i).collect();
        match *found {
            [] => {}
            [one] => return Ok(one),
            _ => {
                let line = |index: &usize| headings.get(*index).map(|heading| heading.line);
                return Err(SectionError::Ambiguous(found.iter().filter_map(line).collect()));
            }
        }
    }
    Err(SectionError::NotFound)
}

/// Whether the heading and some of those above it are what a path names, in order.
fn is_path(headings: &[Heading], index: usize, path: &str) -> bool {
    let mut names = path.split('#').map(str::trim).filter(|name| !name.is_empty()).rev();
    let (Some(last), Some(heading)) = (names.next(), headings.get(index)) else { return false };
    if heading.text.to_lowercase() != last.to_lowercase() {
        return false;
    }
    let mut level = heading.level;
    let mut wanted = names.next();
    for above in headings.get(..index).unwrap_or_default().iter().rev() {
        let Some(name) = wanted else { break };
        if above.level < level {
            level = above.level;
            if above.text.to_lowercase() == name.to_lowercase() {
                wanted = names.next();
            }
        }
    }
    wanted.is_none()
}

#[cfg(test)]
mod tests {
    use super::super::outline;
    use super::*;

    const NOTE: &str = "intro\n# A\na\n\n## B\nb\n\n# C\n\n## B\nlast";

    fn edited(heading: &str, edit: SectionEdit, content: &str) -> Result<String, SectionError> {
        edit_section(NOTE, &outline(NOTE, 0), heading, edit, content)
    }

    #[test]
    fn a_section_ends_at_the_next_heading_of_its_level() {
        assert_eq!(edited("A", SectionEdit::Replace, "x").unwrap(), "intro\n# A\nx\n# C\n\n## B\nlast");
        assert_eq!(
            edited("A", SectionEdit::Append, "x").unwrap(),
            "intro\n# A\na\n\n## B\nb\nx\n\n# C\n\n## B\nlast"
        );
        assert_eq!(
            edited("C", SectionEdit::Before, "x\n").unwrap(),
            "intro\n# A\na\n\n## B\nb\n\nx\n# C\n\n## B\nlast"
        );
        assert_eq!(
            edited("c", SectionEdit::After, "x").unwrap(),
            "intro\n# A\na\n\n## B\nb\n\n# C\nx\n\n## B\nlast"
        );
        assert_eq!(edited("C#B", SectionEdit::Append, "x").unwrap(), format!("{NOTE}\nx"));
    }

    #[test]
    fn an_empty_section_is_appended_to_below_its_heading() {
        let text = "# A\n\n# B\n";
        let edited = edit_section(text, &outline(text, 0), "A", SectionEdit::Append, "x").unwrap();
        assert_eq!(edited, "# A\nx\n\n# B\n");
    }

    #[test]
    fn headings_are_found_by_text_or_path_or_not_at_all() {
        assert_eq!(edited("B", SectionEdit::Append, ""), Err(SectionError::Ambiguous(vec![5, 10])));
        assert_eq!(edited("D", SectionEdit::Append, ""), Err(SectionError::NotFound));
        assert_eq!(edited("## A", SectionEdit::Append, "").unwrap(), NOTE);
        assert_eq!(
            edited("A # B", SectionEdit::Replace, "").unwrap(),
            "intro\n# A\na\n\n## B\n# C\n\n## B\nlast"
        );
    }

    #[test]
    fn line_breaks_follow_the_note() {
        let text = "# A\r\na\r\n";
        let edited = edit_section(text, &outline(text, 0), "A", SectionEdit::Append, "x\ny").unwrap();
        assert_eq!(edited, "# A\r\na\r\nx\r\ny");
    }
}
