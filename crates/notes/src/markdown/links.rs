//! Links to other notes: wikilinks, embeds, markdown links and reference definitions.

use std::ops::Range;

use super::blocks::Outline;
use crate::limits::MAX_LINK;

/// The syntax of a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkKind {
    /// `[[target#heading|alias]]`
    Wiki,
    /// `[text](target#heading "title")`
    Markdown,
    /// `[text](<target#heading>)`
    Angled,
}

/// A link to a file. Links to other sites and within the note are not listed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Link {
    /// Its syntax.
    pub kind: LinkKind,
    /// Whether the target is shown in place (`![[…]]`).
    pub is_embed: bool,
    /// The path or name it points to, decoded, without heading and alias.
    pub target: String,
    /// The bytes of the path or name in the text.
    pub place: Range<usize>,
    /// The line, from 1.
    pub line: usize,
}

/// Finds the links of a text from the offset `from`, in order.
pub fn links(text: &str, from: usize, outline: &Outline) -> Vec<Link> {
    let mut scanner = Scanner { text, bytes: text.as_bytes(), found: Vec::new(), open: Vec::new() };
    scanner.scan(from, &outline.hidden);
    let mut found = scanner.found;
    let mut line = 1;
    let mut counted = 0;
    for link in &mut found {
        let between = text.as_bytes().get(counted..link.place.start).unwrap_or_default();
        line += between.iter().filter(|byte| **byte == b'\n').count();
        counted = link.place.start;
        link.line = line;
    }
    found
}

/// How deeply parentheses may be nested in a destination; the same as elsewhere.
const MAX_PARENTHESES: usize = 32;

struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    found: Vec<Link>,
    /// Brackets that are open in this paragraph; whether each is that of an image.
    open: Vec<bool>,
}

impl Scanner<'_> {
    fn scan(&mut self, from: usize, hidden: &[Range<usize>]) {
        let mut hidden = hidden.iter().peekable();
        let mut at = from;
        let mut is_line_start = true;
        while let Some(byte) = self.bytes.get(at).copied() {
            while hidden.next_if(|range| range.end <= at).is_some() {}
            let next = hidden.peek().map_or(self.bytes.len(), |range| range.start);
            if at >= next {
                at = hidden.peek().map_or(self.bytes.len(), |range| range.end);
                is_line_start = false;
                continue;
            }
            let was_line_start = std::mem::replace(&mut is_line_start, byte == b'\n');
            if was_line_start && self.is_blank_line(at) {
                self.open.clear();
            }
            at = match byte {
                b'\\' => at + 2,
                b'[' if self.bytes.get(at + 1) == Some(&b'[') => self.wiki(at, next),
                b'[' => {
                    self.open.push(at > 0 && self.bytes.get(at - 1) == Some(&b'!'));
                    if was_line_start { self.definition(at, next) } else { at + 1 }
                }
                b']' => self.closed(at, next),
                _ => at + 1,
            };
        }
    }

    fn is_blank_line(&self, at: usize) -> bool {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')).is_none_or(|byte| *byte == b'\n')
    }

    /// A wikilink that begins here; returns where to go on.
    fn wiki(&mut self, at: usize, limit: usize) -> usize {
        let start = at + 2;
        let window = self.bytes.get(start..limit.min(start + MAX_LINK)).unwrap_or_default();
        let mut end = None;
        for (offset, pair) in window.windows(2).enumerate() {
            match pair {
                b"]]" => {
                    end = Some(start + offset);
                    break;
                }
                b"[[" | [b'\n', _] => break,
                _ => {}
            }
        }
        let Some(end) = end else {
            self.open.push(false);
            return at + 1;
        };
        let inner = self.text.get(start..end).unwrap_or_default();
        let target = inner.split(['#', '|']).next().unwrap_or_default();
        // In tables the bar is escaped.
        let target =
            if inner[target.len()..].starts_with('|') { target.trim_end_matches('\\') } else { target };
        let path = target.trim();
        if !path.is_empty() && !path.contains("://") {
            let begin = start + (target.len() - target.trim_start().len());
            self.found.push(Link {
                kind: LinkKind::Wiki,
                is_embed: at > 0 && self.bytes.get(at - 1) == Some(&b'!'),
                target: path.to_owned(),
                place: begin..begin + path.len(),
                line: 0,
            });
        }
        end + 2
    }

    /// The end of the text of a link; a destination may follow.
    fn closed(&mut self, at: usize, limit: usize) -> usize {
        let Some(is_embed) = self.open.pop() else { return at + 1 };
        if self.bytes.get(at + 1) != Some(&b'(') {
            return at + 1;
        }
        let start = self.skip_space(at + 2);
        let Some((place, end, kind)) = self.destination(start, limit, true) else { return at + 1 };
        self.push(kind, is_embed, place);
        end
    }

    /// A reference definition at the beginning of a line: `[label]: target`.
    fn definition(&mut self, at: usize, limit: usize) -> usize {
        let window = self.bytes.get(at + 1..limit.min(at + MAX_LINK)).unwrap_or_default();
        let label = window.iter().take_while(|byte| !matches!(byte, b'[' | b']' | b'\n')).count();
        let is_definition = label > 0
            && window.first() != Some(&b'^')
            && window.get(label..).is_some_and(|rest| rest.starts_with(b"]:"));
        if !is_definition {
            return at + 1;
        }
        let start = self.skip_space(at + 1 + label + 2);
        let Some((place, end, kind)) = self.destination(start, limit, false) else { return at + 1 };
        self.open.pop();
        self.push(kind, false, place);
        end
    }

    fn skip_space(&self, at: usize) -> usize {
        let rest = self.bytes.get(at..).unwrap_or_default();
        at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// The destination of a link: its bytes without delimiters, where it ends, and its kind.
    fn destination(
        &self,
        start: usize,
        limit: usize,
        is_inline: bool,
    ) -> Option<(Range<usize>, usize, LinkKind)> {
        let window = self.bytes.get(start..limit.min(start + MAX_LINK))?;
        if window.first() == Some(&b'<') {
            let len = window.iter().skip(1).take_while(|byte| !matches!(byte, b'>' | b'<' | b'\n')).count();
            if window.get(1 + len) != Some(&b'>') {
                return None;
            }
            return Some((start + 1..start + 1 + len, start + len + 2, LinkKind::Angled));
        }
        let mut depth = 0;
        let mut len = 0;
        while let Some(byte) = window.get(len) {
            match byte {
                b'\\' => len += 1,
                // Deeper ones would be read again for each of them.
                b'(' if depth == MAX_PARENTHESES => return None,
                b'(' => depth += 1,
                b')' if depth == 0 => break,
                b')' => depth -= 1,
                0..=b' ' | 0x7f => break,
                _ => {}
            }
            len += 1;
        }
        // Cut off by the limit or by hidden text.
        let end = window.get(len)?;
        let is_closed = if is_inline {
            // A title may follow.
            let rest = window.get(len..).unwrap_or_default().trim_ascii_start();
            rest.first().is_some_and(|next| matches!(next, b')' | b'"' | b'\''))
        } else {
            end.is_ascii_whitespace()
        };
        (len > 0 && depth == 0 && is_closed).then_some((start..start + len, start + len, LinkKind::Markdown))
    }

    fn push(&mut self, kind: LinkKind, is_embed: bool, place: Range<usize>) {
        let raw = self.text.get(place.clone()).unwrap_or_default();
        let path = raw.split('#').next().unwrap_or_default();
        if path.is_empty() || is_elsewhere(path) {
            return;
        }
        let Some(target) = decode(path) else { return };
        self.found.push(Link {
            kind,
            is_embed,
            target,
            place: place.start..place.start + path.len(),
            line: 0,
        });
    }
}

/// Whether a link leads to another site: it has a scheme, or is relative to one.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split(':').next().unwrap_or_default();
    let has_scheme = scheme.len() < target.len()
        && scheme.len() > 1
        && scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
    has_scheme || target.starts_with("//")
}

/// Decodes `%20` and `\(`. Nothing if the result is not text.
fn decode(raw: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let digits = after.get(..2).and_then(|digits| str::from_utf8(digits).ok());
                let is_hex =
                    digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                match digits.filter(|_| is_hex).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                    Some(value) => {
                        decoded.push(value);
                        rest = after.get(2..).unwrap_or_default();
                    }
                    None => decoded.push(b'%'),
                }
            }
            b'\\' if after.first().is_some_and(u8::is_ascii_punctuation) => {}
            _ => decoded.push(*byte),
        }
    }
    String::from_utf8(decoded).ok()
}

/// Writes a path as the target of a link of this kind. Nothing if the kind cannot express it.
pub(crate) fn encode(path: &str, kind: LinkKind) -> Option<String> {
    if kind == LinkKind::Wiki {
        let is_plain = !path.contains(['#', '|', '^', '\n']) && !path.contains("]]") && !path.contains("[[");
        return (is_plain && path.trim() == path && !path.contains("://")).then(|| path.to_owned());
    }
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        let must_encode = match letter {
            '%' | '#' | '<' | '>' | '?' | '\\' => true,
            ' ' | '(' | ')' | '"' | '\'' => kind == LinkKind::Markdown,
            _ => letter.is_control(),
        };
        if must_encode {
            letter.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| text.push_str(&format!("%{byte:02X}")));
        } else {
            text.push(letter);
        }
    }
    // A colon in the first name would make a scheme of it.
    if is_elsewhere(&text) {
        text = text.replace(':', "%3A");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::outline;
    use super::*;

    fn found(text: &str) -> Vec<(String, String, usize)> {
        let links = links(text, 0, &outline(text, 0));
        links.into_iter().map(|link| (link.target, text[link.place].to_owned(), link.line)).collect()
    }

    fn targets(text: &str) -> Vec<String> {
        found(text).into_iter().map(|(target, ..)| target).collect()
    }

    #[test]
    fn wikilinks_have_aliases_headings_blocks_and_embeds() {
        let text = "[[a]] [[b|alias]] [[c#Heading|x]] ![[d#^block]] [[ e ]] [[#here]] [[]] | [[f\\|g]] |\n";
        assert_eq!(targets(text), ["a", "b", "c", "d", "e", "f"]);
        let kinds: Vec<_> = links(text, 0, &outline(text, 0)).iter().map(|link| link.is_embed).collect();
        assert_eq!(kinds, [false, false, false, true, false, false]);
    }

    #[test]
    fn markdown_links_are_decoded_and_others_left_alone() {
        let text = "[x](a%20b.md#h) [y](<c d.md> \"t\") ![z](img/p.png) [w](https://e.org/a.md) [v](mailto:a@b)\n\
                    [u](#h) [t](e(1).md) (not.md) [r]: no\n[s]: f.md \"T\"\n[^1]: note.md\n[q](g.md\n";
        let expected = ["a b.md", "c d.md", "img/p.png", "e(1).md", "f.md"];
        assert_eq!(targets(text), expected);
        let places: Vec<_> = found(text).into_iter().map(|(_, place, line)| (place, line)).collect();
        assert_eq!(places[0], ("a%20b.md".to_owned(), 1));
        assert_eq!(places[4], ("f.md".to_owned(), 3));
    }

    #[test]
    fn code_comments_and_escapes_hide_links() {
        let text = "`[[a]]` \\[[b]] %%[[c]]%% <!-- [[d]] -->\n```\n[[e]] [x](f.md)\n```\n[[g `]] h`]]\n[x `[` y](i.md)\n";
        assert_eq!(targets(text), ["i.md"]);
    }

    #[test]
    fn broken_links_are_text() {
        assert_eq!(targets("[[a\nb]] [[c [[d]] [e]((f.md) [[g"), ["d"]);
        assert_eq!(targets("a](b.md) [c]\n\n](d.md)"), Vec::<String>::new());
    }

    #[test]
    fn what_is_encoded_is_decoded_to_the_same_path() {
        for path in ["a b/c(1).md", "100%.md", "x#y.md", "q?.md", "ü \"é\".md", "c:d.md", "a<b>.md"] {
            for kind in [LinkKind::Markdown, LinkKind::Angled] {
                let text = encode(path, kind).unwrap();
                let link =
                    if kind == LinkKind::Angled { format!("[x](<{text}>)") } else { format!("[x]({text})") };
                assert_eq!(targets(&link), [path], "{link}");
            }
        }
        assert_eq!(encode("a#b", LinkKind::Wiki), None);
    }
}
