//! Headings, and the ranges in which nothing is a link, a tag or a heading: code and comments.

use std::ops::Range;

use super::inline::{self, Open};

/// A heading.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Heading {
    /// 1 to 6.
    pub level: u8,
    /// Its text without markers.
    pub text: String,
    /// Its line, from 1.
    pub line: usize,
    /// Its bytes, with the line break.
    pub span: Range<usize>,
}

/// The structure of a text.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Outline {
    /// The headings in order.
    pub headings: Vec<Heading>,
    /// Ranges of code and comments, in order, disjoint.
    pub hidden: Vec<Range<usize>>,
}

/// What the next line is part of.
enum State {
    Text,
    Fence { marker: u8, len: usize, quotes: usize, indent: usize },
    Comment(Open),
}

struct Scanner<'t> {
    text: &'t str,
    found: Outline,
    state: State,
    /// The beginning of the current paragraph.
    paragraph: Option<usize>,
    /// Whether the current paragraph can be a heading that is underlined.
    is_plain: bool,
    in_list: bool,
    after_blank: bool,
}

/// Reads the structure of a text from the offset `from`, which is where the front matter ends.
pub fn outline(text: &str, from: usize) -> Outline {
    let mut scanner = Scanner {
        text,
        found: Outline::default(),
        state: State::Text,
        paragraph: None,
        is_plain: false,
        in_list: false,
        after_blank: true,
    };
    let first = 1 + text.as_bytes().iter().take(from).filter(|byte| **byte == b'\n').count();
    let mut at = from;
    for (number, line) in (first..).zip(text.get(from..).unwrap_or_default().split_inclusive('\n')) {
        scanner.line(at, line, number);
        at += line.len();
    }
    scanner.end_paragraph(text.len());
    scanner.found
}

impl Scanner<'_> {
    fn line(&mut self, at: usize, line: &str, number: usize) {
        match self.state {
            State::Comment(open) => self.comment_line(open, at, line),
            State::Fence { marker, len, quotes, indent } => {
                let body = strip_quotes(line, quotes);
                let is_over = body.is_none_or(|body| !is_blank(body) && width(body) < indent);
                if is_over {
                    self.state = State::Text;
                    self.text_line(at, line, number);
                    return;
                }
                self.hide(at..at + line.len());
                if body.is_some_and(|body| closes(body, marker, len)) {
                    self.state = State::Text;
                    self.after_blank = true;
                }
            }
            State::Text => self.text_line(at, line, number),
        }
    }

    /// A line inside of a comment: hidden up to the comment's end.
    fn comment_line(&mut self, open: Open, at: usize, line: &str) {
        match line.find(open.closer()) {
            None => self.hide(at..at + line.len()),
            Some(end) => {
                let end = end + open.closer().len();
                self.hide(at..at + end);
                self.state = State::Text;
                let rest = line.get(end..).unwrap_or_default();
                if !is_blank(rest) {
                    self.begin_paragraph(at + end, false);
                    if inline::opens_comment(rest) {
                        self.end_paragraph(at + line.len());
                    }
                }
            }
        }
    }

    fn text_line(&mut self, at: usize, line: &str, number: usize) {
        if is_blank(line) {
            self.end_paragraph(at);
            self.after_blank = true;
            if matches!(self.state, State::Comment(_)) {
                self.hide(at..at + line.len());
            }
            return;
        }
        // The comment that the paragraph before has opened may include this line.
        let content = Content::of(line);
        let is_block = content.fence.is_some() || content.heading.is_some() || content.is_html_comment;
        if is_block && self.paragraph.is_some() {
            self.end_paragraph(at);
            if matches!(self.state, State::Comment(_)) {
                self.line(at, line, number);
                return;
            }
        }
        if content.is_list_item {
            self.in_list = true;
        } else if self.after_blank && content.indent == 0 {
            self.in_list = false;
        }
        let was_after_blank = std::mem::take(&mut self.after_blank);
        if content.indent >= 4 && !self.in_list && content.quotes == 0 && self.paragraph.is_none() {
            // Indented code ends a paragraph no more than it begins one.
            self.hide(at..at + line.len());
            self.after_blank = was_after_blank;
            return;
        }
        if let Some((marker, len)) = content.fence {
            let indent = if content.is_list_item { content.fence_column } else { 0 };
            self.state = State::Fence { marker, len, quotes: content.quotes, indent };
            self.hide(at..at + line.len());
        } else if let Some((level, text)) = content.heading {
            self.found.headings.push(Heading {
                level,
                text: text.to_owned(),
                line: number,
                span: at..at + line.len(),
            });
            self.begin_paragraph(at, false);
            self.end_paragraph(at + line.len());
        } else if content.is_html_comment {
            self.state = State::Comment(Open::Html);
            self.comment_line(Open::Html, at, line);
        } else {
            self.paragraph_line(at, line, number, &content);
        }
    }

    fn paragraph_line(&mut self, at: usize, line: &str, number: usize, content: &Content<'_>) {
        if let (Some(start), Some(level), true) = (self.paragraph, content.underline, self.is_plain) {
            let before = self.text.get(start..at).unwrap_or_default();
            let lines = before.matches('\n').count();
            let heading = Heading {
                level,
                text: before.split_whitespace().collect::<Vec<_>>().join(" "),
                line: number - lines,
                span: start..at + line.len(),
            };
            self.end_paragraph(at);
            if matches!(self.state, State::Text) {
                self.found.headings.push(heading);
            } else {
                self.line(at, line, number);
            }
        } else if self.paragraph.is_none() {
            let is_plain = content.quotes == 0 && !content.is_list_item && content.underline.is_none();
            self.begin_paragraph(at, is_plain && !self.in_list);
        } else if content.is_list_item || content.quotes > 0 {
            self.is_plain = false;
        }
    }

    fn begin_paragraph(&mut self, at: usize, is_plain: bool) {
        self.paragraph = Some(at);
        self.is_plain = is_plain;
    }

    /// Finds the code and comments of the paragraph that ends here.
    fn end_paragraph(&mut self, end: usize) {
        let Some(start) = self.paragraph.take() else { return };
        let paragraph = self.text.get(start..end).unwrap_or_default();
        let open = inline::hidden(paragraph, |range| {
            self.found.hidden.push(start + range.start..start + range.end);
        });
        if let Some(open) = open {
            self.state = State::Comment(open);
        }
    }

    fn hide(&mut self, range: Range<usize>) {
        match self.found.hidden.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.found.hidden.push(range),
        }
    }
}

/// What a line is, apart from the lines before it.
struct Content<'l> {
    /// Columns before its first character; a tab counts as four.
    indent: usize,
    quotes: usize,
    is_list_item: bool,
    fence: Option<(u8, usize)>,
    fence_column: usize,
    heading: Option<(u8, &'l str)>,
    underline: Option<u8>,
    is_html_comment: bool,
}

impl<'l> Content<'l> {
    fn of(line: &'l str) -> Self {
        let line = line.trim_end_matches(['\n', '\r']);
        let indent = width(line);
        let bare = line.trim_start_matches([' ', '\t']);
        let mut rest = bare;
        let (mut quotes, mut is_list_item, mut column) = (0, false, indent);
        loop {
            if let Some(inner) = rest.strip_prefix('>') {
                quotes += 1;
                column += 1 + width(inner);
                rest = inner.trim_start_matches([' ', '\t']);
            } else if let Some(inner) = strip_list_marker(rest) {
                is_list_item = true;
                column += rest.len() - inner.len() + width(inner);
                rest = inner.trim_start_matches([' ', '\t']);
            } else {
                break;
            }
        }
        let is_shallow = indent < 4;
        Self {
            indent,
            quotes,
            is_list_item,
            fence: fence(rest),
            fence_column: column,
            heading: if is_shallow { heading(bare) } else { None },
            underline: if is_shallow { underline(bare) } else { None },
            is_html_comment: is_shallow && bare.starts_with("<!--"),
        }
    }
}

fn is_blank(line: &str) -> bool {
    line.trim_ascii().is_empty()
}

fn width(line: &str) -> usize {
    line.bytes()
        .map_while(|byte| match byte {
            b' ' => Some(1),
            b'\t' => Some(4),
            _ => None,
        })
        .sum()
}

/// A line without its first `quotes` quotation marks; nothing if it has fewer.
fn strip_quotes(line: &str, quotes: usize) -> Option<&str> {
    let mut rest = line;
    for _ in 0..quotes {
        rest = rest.trim_start_matches([' ', '\t']).strip_prefix('>')?;
    }
    Some(rest)
}

fn strip_list_marker(text: &str) -> Option<&str> {
    let rest = match text.strip_prefix(['-', '*', '+']) {
        Some(rest) => rest,
        None => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let rest = text.get(digits..).filter(|_| (1..=9).contains(&digits))?;
            rest.strip_prefix(['.', ')'])?
        }
    };
    rest.starts_with([' ', '\t']).then_some(rest)
}

/// The marker of a code fence and how often it is repeated.
fn fence(text: &str) -> Option<(u8, usize)> {
    let marker = text.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let len = text.bytes().take_while(|byte| *byte == marker).count();
    let is_inline = marker == b'`' && text.get(len..).is_some_and(|rest| rest.contains('`'));
    (len >= 3 && !is_inline).then_some((marker, len))
}

fn closes(line: &str, marker: u8, len: usize) -> bool {
    let line = line.trim_ascii();
    line.len() >= len && line.bytes().all(|byte| byte == marker)
}

fn heading(text: &str) -> Option<(u8, &str)> {
    let level = text.bytes().take_while(|byte| *byte == b'#').count();
    let rest = text.get(level..).filter(|_| (1..=6).contains(&level))?;
    if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_ascii();
    let open = rest.trim_end_matches('#');
    let is_closed = open.is_empty() || open.ends_with([' ', '\t']);
    Some((level as u8, if is_closed { open.trim_ascii() } else { rest }))
}

fn underline(text: &str) -> Option<u8> {
    let text = text.trim_ascii_end();
    let marker = text.bytes().next()?;
    let level = match marker {
        b'=' => 1,
        b'-' => 2,
        _ => return None,
    };
    text.bytes().all(|byte| byte == marker).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headings(text: &str) -> Vec<(u8, String, usize)> {
        outline(text, 0)
            .headings
            .into_iter()
            .map(|heading| (heading.level, heading.text, heading.line))
            .collect()
    }

    fn hidden(text: &str) -> Vec<&str> {
        outline(text, 0).hidden.into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn headings_are_found_outside_of_code_and_comments() {
        let text = "# One #\n\n```\n# code\n```\n<!--\n# comment\n-->\n%%\n# hidden\n%%\n## Two ##x\nText\n===\n#not\n    # code\n";
        let found = headings(text);
        let expected = [(1, "One", 1), (2, "Two ##x", 12), (1, "Text", 13)];
        assert_eq!(found, expected.map(|(level, text, line)| (level, text.to_owned(), line)));
    }

    #[test]
    fn fences_end_where_they_should() {
        assert_eq!(hidden("~~~\na\n```\n~~~~\nb\n"), ["~~~\na\n```\n~~~~\n"]);
        assert_eq!(hidden("> ```\n> a\nb\n"), ["> ```\n> a\n"]);
        assert_eq!(hidden("- ```\n  a\nb\n"), ["- ```\n  a\n"]);
        assert_eq!(hidden("```\nnever closed"), ["```\nnever closed"]);
        assert_eq!(hidden("``` a`b\nc\n"), Vec::<&str>::new());
    }

    #[test]
    fn indented_text_is_code_unless_it_belongs_to_a_list() {
        assert_eq!(hidden("a\n\n    code\n\nb\n"), ["    code\n"]);
        assert_eq!(hidden("- a\n\n    text\n"), Vec::<&str>::new());
        assert_eq!(hidden("a\n    text\n"), Vec::<&str>::new());
    }

    #[test]
    fn comments_hide_code_and_code_hides_comments() {
        assert_eq!(hidden("a %% b `c %% d` e\n"), ["%% b `c %%"]);
        assert_eq!(hidden("`%%` a\n\n`<!--` b\n"), ["`%%`", "`<!--`"]);
        assert_eq!(hidden("a %% b\n\n```\nc\n%% d\n"), ["%% b\n\n```\nc\n%%"]);
        assert_eq!(hidden("<!-- a\n\nb --> c `d`\n"), ["<!-- a\n\nb -->", "`d`"]);
    }
}
