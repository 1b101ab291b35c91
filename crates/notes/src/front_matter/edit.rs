//! Sets and removes one key.

use serde_json::{Map, Value};

use super::block::{Block, block, line_break, start};
use super::emit::{self, Lists};
use super::yaml::{Document, Key, Place, YamlError, read};

/// A change of one key of the front matter.
#[derive(Clone, Debug, PartialEq)]
pub enum FrontMatterEdit<'e> {
    /// Gives the key this value; adds the key, and the front matter, if missing.
    Set(&'e str, &'e Value),
    /// Removes the key; removes the front matter if nothing is left in it.
    Delete(&'e str),
}

/// Edits one key. Comments, order and formatting of everything else stay, as does a comment behind a value that is
/// replaced by another one-line value.
pub fn edit_front_matter(text: &str, edit: &FrontMatterEdit<'_>) -> Result<String, YamlError> {
    let Some(found) = block(text) else {
        return Ok(match edit {
            FrontMatterEdit::Set(key, value) => created(text, key, value),
            FrontMatterEdit::Delete(_) => text.to_owned(),
        });
    };
    let yaml = text.get(found.yaml.clone()).unwrap_or_default();
    let document = checked(yaml)?;
    let key = match edit {
        FrontMatterEdit::Set(key, _) | FrontMatterEdit::Delete(key) => *key,
    };
    let index = document.keys.iter().position(|known| known.name == key);
    let (edited, expected) = match (edit, index) {
        (FrontMatterEdit::Set(_, value), Some(index)) => {
            if document.values.get(key) == Some(value) {
                return Ok(text.to_owned());
            }
            (replaced(text, yaml, &document, index, value), with(&document, key, Some(value)))
        }
        (FrontMatterEdit::Set(_, value), None) => {
            (appended(text, yaml, &document, key, value), with(&document, key, Some(value)))
        }
        (FrontMatterEdit::Delete(_), None) => return Ok(text.to_owned()),
        (FrontMatterEdit::Delete(_), Some(index)) => {
            let lines = lines_of(yaml, &document, index);
            let rest = splice(yaml, lines, "");
            if rest.trim().is_empty() {
                return Ok(splice(text, found.span, ""));
            }
            (rest, with(&document, key, None))
        }
    };
    finish(text, &found, &edited, &expected)
}

/// Reads front matter that can be edited line by line.
pub(super) fn checked(yaml: &str) -> Result<Document, YamlError> {
    let document = read(yaml)?;
    if document.is_flow {
        return Err(YamlError::new(1, "front matter in braces cannot be edited by key; write it as lines"));
    }
    Ok(document)
}

/// Puts edited YAML into the note after checking that it says what it should.
pub(super) fn finish(
    text: &str,
    found: &Block,
    edited: &str,
    expected: &Map<String, Value>,
) -> Result<String, YamlError> {
    let is_as_expected = read(edited).is_ok_and(|document| document.values == *expected);
    let result = splice(text, found.yaml.clone(), edited);
    let is_whole = block(&result).is_some_and(|block| block.yaml.len() == edited.len());
    if is_as_expected && is_whole {
        return Ok(result);
    }
    Err(YamlError::new(1, "this key cannot be changed without touching others; edit the text with replace"))
}

pub(super) fn with(document: &Document, key: &str, value: Option<&Value>) -> Map<String, Value> {
    let mut values = document.values.clone();
    match value {
        Some(value) => values.insert(key.to_owned(), value.clone()),
        None => values.remove(key),
    };
    values
}

pub(super) fn splice(text: &str, range: std::ops::Range<usize>, new: &str) -> String {
    let (before, after) =
        (text.get(..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    [before, new, after].concat()
}

fn created(text: &str, key: &str, value: &Value) -> String {
    let at = start(text);
    let yaml = format!("---\n{}:{}\n---\n", emit::string(key), emit::value(value, 0, Lists::Block));
    splice(text, at..at, &yaml.replace('\n', line_break(text)))
}

fn appended(text: &str, yaml: &str, document: &Document, key: &str, value: &Value) -> String {
    let indent = document.keys.first().map_or(0, |first| column(yaml, first));
    let pad = " ".repeat(indent);
    let line = format!("{pad}{}:{}\n", emit::string(key), emit::value(value, indent, Lists::Block));
    // Comments at the end stay below the last key.
    let mut edited = yaml.to_owned();
    edited.push_str(&line.replace('\n', line_break(text)));
    edited
}

fn replaced(text: &str, yaml: &str, document: &Document, index: usize, value: &Value) -> String {
    let Some(key) = document.keys.get(index) else { return yaml.to_owned() };
    let indent = column(yaml, key);
    let lists = match &key.value {
        Place::List { close: Some(_), .. } => Lists::Flow,
        _ => Lists::Block,
    };
    let new = emit::value(value, indent, lists).replace('\n', line_break(text));
    let is_one_line = !new.contains('\n');
    match &key.value {
        // What follows on the line, such as a comment, stays.
        Place::Line(place) if is_one_line && !place.is_empty() && has_no_properties(yaml, key, place) => {
            splice(yaml, place.clone(), new.trim_start())
        }
        _ => {
            let lines = lines_of(yaml, document, index);
            let Some(colon) = colon_of(yaml, key) else { return yaml.to_owned() };
            let old = yaml.get(colon + 1..lines.end).unwrap_or_default();
            let end = if old.ends_with("\r\n") { 2 } else { usize::from(old.ends_with('\n')) };
            splice(yaml, colon + 1..lines.end - end, &new)
        }
    }
}

/// Whether nothing but spaces is between the colon and the value: no tag and no anchor.
fn has_no_properties(yaml: &str, key: &Key, place: &std::ops::Range<usize>) -> bool {
    let between = colon_of(yaml, key).and_then(|colon| yaml.get(colon + 1..place.start));
    between.is_some_and(|between| between.trim_matches([' ', '\t']).is_empty())
}

fn colon_of(yaml: &str, key: &Key) -> Option<usize> {
    let rest = yaml.get(key.place.end..)?;
    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    rest.get(spaces..)?.starts_with(':').then_some(key.place.end + spaces)
}

fn line_start(yaml: &str, at: usize) -> usize {
    yaml.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1)
}

fn column(yaml: &str, key: &Key) -> usize {
    key.place.start - line_start(yaml, key.place.start)
}

/// The lines of a key: to the next key, without blank lines and comments above that.
pub(super) fn lines_of(yaml: &str, document: &Document, index: usize) -> std::ops::Range<usize> {
    let Some(key) = document.keys.get(index) else { return 0..0 };
    let start = line_start(yaml, key.place.start);
    let next = document.keys.get(index + 1);
    let mut end = next.map_or(yaml.len(), |next| line_start(yaml, next.place.start));
    let indent = column(yaml, key);
    let first_end =
        yaml.get(start..).and_then(|rest| rest.find('\n')).map_or(yaml.len(), |at| start + at + 1);
    while end > first_end {
        let last = line_start(yaml, end - 1);
        let line = yaml.get(last..end).unwrap_or_default();
        let bare = line.trim_start_matches(' ');
        let is_outside = bare.starts_with('#') && line.len() - bare.len() <= indent;
        if !bare.trim_end().is_empty() && !is_outside {
            break;
        }
        end = last;
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOTE: &str = "---\n# about\ntitle:   'A'  # why\ntags: [x, y] # t\nlist:\n  - 1\n  # two\n  - 2\n\n# last\nempty:\ntext: |\n  # no comment\n  b\n---\nbody\n";

    fn set(text: &str, key: &str, value: Value) -> String {
        edit_front_matter(text, &FrontMatterEdit::Set(key, &value)).unwrap()
    }

    fn delete(text: &str, key: &str) -> String {
        edit_front_matter(text, &FrontMatterEdit::Delete(key)).unwrap()
    }

    #[test]
    fn only_the_value_changes() {
        assert_eq!(set(NOTE, "title", json!("B: c")), NOTE.replace("'A'", "\"B: c\""));
        assert_eq!(set(NOTE, "title", json!("A")), NOTE);
        assert_eq!(set(NOTE, "empty", json!(true)), NOTE.replace("empty:", "empty: true"));
        assert_eq!(set(NOTE, "tags", json!(["z"])), NOTE.replace(" [x, y] # t", " [z]"));
        let list = "list:\n  - 1\n  # two\n  - 2\n";
        assert_eq!(set(NOTE, "list", json!([3])), NOTE.replace(list, "list:\n  - 3\n"));
        assert_eq!(
            set(NOTE, "text", json!("c")),
            NOTE.replace("text: |\n  # no comment\n  b\n", "text: c\n")
        );
        assert_eq!(
            set(NOTE, "new", json!({"a": [1], "b": {"c": null}})),
            NOTE.replace("\n---\nbody", "\nnew:\n  a:\n    - 1\n  b:\n    c: null\n---\nbody")
        );
    }

    #[test]
    fn only_the_key_is_removed() {
        assert_eq!(delete(NOTE, "list"), NOTE.replace("list:\n  - 1\n  # two\n  - 2\n", ""));
        assert_eq!(delete(NOTE, "none"), NOTE);
        assert_eq!(delete("---\na: 1\n---\nbody", "a"), "body");
        assert_eq!(delete("---\n# keep\na: 1\n---\nbody", "a"), "---\n# keep\n---\nbody");
    }

    #[test]
    fn front_matter_is_created_where_there_is_none() {
        assert_eq!(set("body", "a b", json!("x")), "---\na b: x\n---\nbody");
        assert_eq!(set("a\r\n", "k", json!(["x"])), "---\r\nk:\r\n  - x\r\n---\r\na\r\n");
        assert_eq!(set("---\n---\n", "k", json!(1)), "---\nk: 1\n---\n");
    }

    #[test]
    fn line_breaks_and_other_letters_are_kept() {
        let text = "---\r\nä: ö # ü\r\nb: 1\r\n---\r\n";
        assert_eq!(set(text, "ä", json!("é")), "---\r\nä: é # ü\r\nb: 1\r\n---\r\n");
        assert_eq!(set(text, "b", json!([1, 2])), "---\r\nä: ö # ü\r\nb:\r\n  - 1\r\n  - 2\r\n---\r\n");
    }

    #[test]
    fn what_cannot_be_edited_by_lines_is_refused() {
        for text in
            ["---\n{a: 1}\n---\n", "---\na: [\n---\n", "---\n- a\n---\n", "---\na: &x 1\nb: *x\n---\n"]
        {
            edit_front_matter(text, &FrontMatterEdit::Set("a", &json!(2))).unwrap_err();
        }
    }
}
