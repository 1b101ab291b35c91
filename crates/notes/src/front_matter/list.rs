//! Tags in front matter: reads them, and adds or removes one without touching the others.

use serde_json::{Map, Value};

use super::block::{block, line_break};
use super::edit::{FrontMatterEdit, checked, edit_front_matter, finish, lines_of, splice, with};
use super::emit;
use super::yaml::{Place, YamlError};

const KEY: &str = "tags";

/// The tags that front matter has: the keys `tags` and `tag`, a list or a text with commas or spaces.
pub(crate) fn tags_of(values: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for key in [KEY, "tag"] {
        match values.get(key) {
            Some(Value::Array(list)) => found.extend(list.iter().filter_map(tag)),
            Some(Value::String(text)) => {
                found.extend(
                    text.split([',', ' ']).map(bare).filter(|tag| !tag.is_empty()).map(str::to_owned),
                );
            }
            Some(number @ Value::Number(_)) => found.push(number.to_string()),
            _ => {}
        }
    }
    found
}

fn tag(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(bare(text).to_owned()).filter(|tag| !tag.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn bare(text: &str) -> &str {
    text.trim().trim_start_matches('#')
}

fn is_same(value: &Value, wanted: &str) -> bool {
    tag(value).is_some_and(|tag| tag.to_lowercase() == wanted.to_lowercase())
}

/// Adds a tag to the key `tags`.
pub(crate) fn with_tag(text: &str, wanted: &str) -> Result<String, YamlError> {
    let Some(found) = block(text) else {
        return edit_front_matter(text, &FrontMatterEdit::Set(KEY, &Value::from(vec![wanted])));
    };
    let yaml = text.get(found.yaml.clone()).unwrap_or_default();
    let document = checked(yaml)?;
    if tags_of(&document.values).iter().any(|tag| tag.to_lowercase() == wanted.to_lowercase()) {
        return Ok(text.to_owned());
    }
    let list = match document.values.get(KEY) {
        Some(Value::Array(list)) => list.clone(),
        Some(Value::Null) | None => Vec::new(),
        Some(Value::String(_)) => {
            let only_tags: Map<_, _> =
                document.values.clone().into_iter().filter(|(key, _)| key == KEY).collect();
            tags_of(&only_tags).into_iter().map(Value::String).collect()
        }
        Some(other) => vec![other.clone()],
    };
    let mut new = list;
    new.push(Value::from(wanted));
    let new = Value::Array(new);
    let index = document.keys.iter().position(|key| key.name == KEY);
    let place = index.and_then(|index| document.keys.get(index)).map(|key| &key.value);
    let edited = match (place, index) {
        (Some(Place::List { items, close: Some(close) }), _) => {
            let separator = if items.is_empty() { "" } else { ", " };
            // Spaces before the bracket stay before it.
            let at = items.last().map_or(*close, |last| last.end);
            Some(splice(yaml, at..at, &format!("{separator}{}", emit::string(wanted))))
        }
        (Some(Place::List { items, close: None }), Some(index)) => items.last().map(|last| {
            let start = yaml.get(..last.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
            let marker = yaml.get(start..last.start).unwrap_or_default();
            let end = lines_of(yaml, &document, index).end;
            splice(yaml, end..end, &format!("{marker}{}{}", emit::string(wanted), line_break(text)))
        }),
        _ => None,
    };
    let expected = with(&document, KEY, Some(&new));
    edited
        .and_then(|edited| finish(text, &found, &edited, &expected).ok())
        .map_or_else(|| edit_front_matter(text, &FrontMatterEdit::Set(KEY, &new)), Ok)
}

/// Removes a tag from the keys `tags` and `tag`.
pub(crate) fn without_tag(text: &str, wanted: &str) -> Result<String, YamlError> {
    let mut text = text.to_owned();
    for key in [KEY, "tag"] {
        text = without(&text, key, wanted)?;
    }
    Ok(text)
}

fn without(text: &str, key: &str, wanted: &str) -> Result<String, YamlError> {
    let Some(found) = block(text) else { return Ok(text.to_owned()) };
    let yaml = text.get(found.yaml.clone()).unwrap_or_default();
    let document = checked(yaml)?;
    let new = match document.values.get(key) {
        Some(Value::Array(list)) => {
            let kept: Vec<Value> = list.iter().filter(|item| !is_same(item, wanted)).cloned().collect();
            if kept.len() == list.len() {
                return Ok(text.to_owned());
            }
            Value::Array(kept)
        }
        Some(Value::String(old)) => {
            let kept: Vec<&str> = old.split([',', ' ']).map(bare).filter(|tag| !tag.is_empty()).collect();
            let count = kept.len();
            let kept: Vec<_> =
                kept.into_iter().filter(|tag| tag.to_lowercase() != wanted.to_lowercase()).collect();
            if kept.len() == count {
                return Ok(text.to_owned());
            }
            Value::from(kept.join(", "))
        }
        _ => return Ok(text.to_owned()),
    };
    let is_empty = matches!(&new, Value::Array(list) if list.is_empty()) || new == "";
    if is_empty {
        return edit_front_matter(text, &FrontMatterEdit::Delete(key));
    }
    let index = document.keys.iter().position(|known| known.name == key);
    let known = index.and_then(|index| document.keys.get(index));
    let edited = match (known.map(|key| &key.value), document.values.get(key)) {
        (Some(Place::List { items, close }), Some(Value::Array(list))) if items.len() == list.len() => {
            let mut edited = yaml.to_owned();
            for (at, (item, _)) in
                items.iter().zip(list).enumerate().rev().filter(|(_, (_, value))| is_same(value, wanted))
            {
                let range = if close.is_some() {
                    // With the comma behind it or, at the end, the one before it.
                    match (items.get(at + 1), at.checked_sub(1).and_then(|at| items.get(at))) {
                        (Some(next), _) => item.start..next.start,
                        (None, Some(before)) => before.end..item.end,
                        (None, None) => item.clone(),
                    }
                } else {
                    let start =
                        yaml.get(..item.start).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
                    let end = yaml
                        .get(item.end..)
                        .and_then(|text| text.find('\n'))
                        .map_or(yaml.len(), |at| item.end + at + 1);
                    start..end
                };
                edited = splice(&edited, range, "");
            }
            Some(edited)
        }
        _ => None,
    };
    let expected = with(&document, key, Some(&new));
    edited
        .and_then(|edited| finish(text, &found, &edited, &expected).ok())
        .map_or_else(|| edit_front_matter(text, &FrontMatterEdit::Set(key, &new)), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_added_in_the_style_of_the_list() {
        let add = |text: &str| with_tag(text, "new").unwrap();
        assert_eq!(add("---\ntags: [a, 'b' ] # c\n---\n"), "---\ntags: [a, 'b', new ] # c\n---\n");
        assert_eq!(add("---\ntags: []\n---\n"), "---\ntags: [new]\n---\n");
        assert_eq!(
            add("---\ntags:\n- a # x\n# y\nb: 1\n---\n"),
            "---\ntags:\n- a # x\n- new\n# y\nb: 1\n---\n"
        );
        assert_eq!(add("---\ntags:\n---\n"), "---\ntags:\n  - new\n---\n");
        assert_eq!(add("---\ntags: a, b\n---\n"), "---\ntags:\n  - a\n  - b\n  - new\n---\n");
        assert_eq!(add("x"), "---\ntags:\n  - new\n---\nx");
        assert_eq!(add("---\ntags: [NEW]\n---\n"), "---\ntags: [NEW]\n---\n");
    }

    #[test]
    fn a_tag_is_removed_with_its_line_or_comma() {
        let remove = |text: &str| without_tag(text, "b").unwrap();
        assert_eq!(remove("---\ntags: [a, b, c] # x\n---\n"), "---\ntags: [a, c] # x\n---\n");
        assert_eq!(remove("---\ntags: [a, '#B']\n---\n"), "---\ntags: [a]\n---\n");
        assert_eq!(
            remove("---\ntags:\n  - a # x\n  - b\n  - c\n---\n"),
            "---\ntags:\n  - a # x\n  - c\n---\n"
        );
        assert_eq!(remove("---\ntags: [b]\nx: 1\n---\n"), "---\nx: 1\n---\n");
        assert_eq!(remove("---\ntags: [b, b, b]\n---\n"), "");
        assert_eq!(remove("---\ntag: a b\n---\n"), "---\ntag: a\n---\n");
        assert_eq!(remove("text"), "text");
    }
}
