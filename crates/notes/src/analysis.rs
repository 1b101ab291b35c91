//! What the index knows about the text of a note.

use crate::front_matter::{block, parse, tags_of};
use crate::limits::MAX_INDEXED;
use crate::markdown::{Link, is_tag, links, outline, tags};

/// The indexed parts of a note.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Analysis {
    /// The key `title` of the front matter, else the first heading of the first level.
    pub(crate) title: Option<String>,
    /// All headings, one per line.
    pub(crate) headings: String,
    /// Tags as written, without `#`, each once.
    pub(crate) tags: Vec<String>,
    pub(crate) links: Vec<Link>,
    /// Why the front matter was ignored.
    pub(crate) problem: Option<String>,
}

/// Reads a note.
pub(crate) fn analyse(text: &str) -> Analysis {
    let mut found = Analysis::default();
    let mut body = 0;
    let mut known = std::collections::HashSet::new();
    let mut add_tag = |tag: &str, found: &mut Analysis| {
        if is_tag(tag) && found.tags.len() < MAX_INDEXED && known.insert(tag.to_lowercase()) {
            found.tags.push(tag.to_owned());
        }
    };
    if let Some(block) = block(text) {
        body = block.span.end;
        match parse(text.get(block.yaml).unwrap_or_default()) {
            Ok(values) => {
                found.title = values.get("title").and_then(|title| title.as_str()).map(str::to_owned);
                tags_of(&values).iter().for_each(|tag| add_tag(tag, &mut found));
            }
            // The line of the note: the YAML begins in its second line.
            Err(error) => found.problem = Some(format!("line {}: {}", error.line + 1, error.reason)),
        }
    }
    let outline = outline(text, body);
    found.links = links(text, body, &outline);
    tags(text, body, &outline, &found.links).into_iter().for_each(|(_, tag)| add_tag(tag, &mut found));
    found.links.truncate(MAX_INDEXED);
    if found.title.is_none() {
        found.title =
            outline.headings.iter().find(|heading| heading.level == 1).map(|heading| heading.text.clone());
    }
    for heading in &outline.headings {
        found.headings.push_str(&heading.text);
        found.headings.push('\n');
    }
    found
}
