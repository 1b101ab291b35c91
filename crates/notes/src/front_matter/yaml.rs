//! YAML to JSON within limits: depth, number of values, and aliases counted as what they repeat.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::{Map, Number, Value};

use crate::limits::{MAX_YAML_DEPTH, MAX_YAML_VALUES};

/// Why a text is not usable front matter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct YamlError {
    /// The line of the YAML, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl YamlError {
    pub(super) fn new(line: usize, reason: impl ToString) -> Self {
        Self { line, reason: reason.to_string() }
    }
}

/// A key of the top level and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub(super) name: String,
    /// The bytes of the key as written.
    pub(super) place: Range<usize>,
    pub(super) value: Place,
}

/// Where a value of the top level is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// A scalar on one line; empty if nothing is written.
    Line(Range<usize>),
    /// A sequence of scalars: each item, and the closing bracket if it is written in brackets.
    List { items: Vec<Range<usize>>, close: Option<usize> },
    /// Anything else.
    Other,
}

/// What a text says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    pub(super) values: Map<String, Value>,
    pub(super) keys: Vec<Key>,
    /// Whether the mapping is written in braces, where keys have no lines of their own.
    pub(super) is_flow: bool,
}

/// Reads front matter. An empty text is an empty mapping.
pub fn parse(yaml: &str) -> Result<Map<String, Value>, YamlError> {
    read(yaml).map(|document| document.values)
}

pub(super) fn read(yaml: &str) -> Result<Document, YamlError> {
    let mut reader = Reader::new(yaml);
    let mut documents = 0;
    for event in Parser::new_from_str(yaml) {
        let (event, span) = event.map_err(|error| YamlError::new(error.marker().line(), error.info()))?;
        if matches!(event, Event::DocumentStart(_)) {
            documents += 1;
            if documents > 1 {
                return Err(YamlError::new(span.start.line(), "it has several documents"));
            }
        }
        reader.event(event, span)?;
    }
    reader.finish()
}

/// A collection that is being read.
struct Open {
    value: Collection,
    anchor: usize,
    place: Option<Place>,
}

enum Collection {
    List(Vec<Value>),
    Map { map: Map<String, Value>, key: Option<String> },
}

struct Reader<'y> {
    yaml: &'y str,
    offsets: Offsets<'y>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Value, usize)>,
    /// Values so far.
    count: usize,
    document: Document,
    root: Option<Value>,
}

impl<'y> Reader<'y> {
    fn new(yaml: &'y str) -> Self {
        let offsets = Offsets::new(yaml);
        let document = Document::default();
        Self { yaml, offsets, open: Vec::new(), anchors: HashMap::new(), count: 0, document, root: None }
    }

    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let line = span.start.line();
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text =
                    tag.as_deref().is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
                let value =
                    if is_text { Value::String(text.into_owned()) } else { scalar(text.into_owned(), style) };
                self.spend(1, line)?;
                let place = self.place_of(span, style);
                self.add(value, anchor, place, line)
            }
            Event::Alias(anchor) => {
                let Some((value, cost)) = self.anchors.get(&anchor).cloned() else {
                    return Err(YamlError::new(line, "an alias refers to a value that contains it"));
                };
                self.spend(cost, line)?;
                self.add(value, 0, Place::Other, line)
            }
            Event::SequenceStart(anchor, _) => {
                let is_flow = self.starts_with(span, '[');
                let place = Place::List { items: Vec::new(), close: is_flow.then_some(0) };
                self.begin(Collection::List(Vec::new()), anchor, Some(place), line)
            }
            Event::MappingStart(anchor, _) => {
                if self.open.is_empty() {
                    self.document.is_flow = self.starts_with(span, '{');
                }
                self.begin(Collection::Map { map: Map::new(), key: None }, anchor, None, line)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
            _ => Ok(()),
        }
    }

    fn begin(
        &mut self,
        value: Collection,
        anchor: usize,
        place: Option<Place>,
        line: usize,
    ) -> Result<(), YamlError> {
        self.spend(1, line)?;
        if self.open.len() >= MAX_YAML_DEPTH {
            return Err(YamlError::new(
                line,
                format_args!("it is nested more than {MAX_YAML_DEPTH} levels deep"),
            ));
        }
        self.open.push(Open { value, anchor, place });
        Ok(())
    }

    fn end(&mut self, span: Span) -> Result<(), YamlError> {
        let line = span.start.line();
        let Some(Open { value, anchor, place }) = self.open.pop() else { return Ok(()) };
        let value = match value {
            Collection::List(list) => Value::Array(list),
            Collection::Map { map, .. } => Value::Object(map),
        };
        let place = match place {
            Some(Place::List { items, close: Some(_) }) => {
                let close = self.offsets.of(span.start.index());
                Place::List { items, close: Some(close) }
            }
            place => place.unwrap_or(Place::Other),
        };
        self.add(value, anchor, place, line)
    }

    fn add(&mut self, value: Value, anchor: usize, place: Place, line: usize) -> Result<(), YamlError> {
        if anchor != 0 {
            let cost = size(&value);
            self.spend(cost, line)?;
            self.anchors.insert(anchor, (value.clone(), cost));
        }
        let depth = self.open.len();
        let Some(open) = self.open.last_mut() else {
            self.root = Some(value);
            return Ok(());
        };
        match &mut open.value {
            Collection::List(list) => {
                if let Some(list_place) = &mut open.place {
                    match (list_place, place) {
                        (Place::List { items, .. }, Place::Line(range)) => items.push(range),
                        (other, _) => *other = Place::Other,
                    }
                }
                list.push(value);
            }
            Collection::Map { map, key } => match key.take() {
                None => {
                    let Value::String(name) = key_text(value) else {
                        return Err(YamlError::new(line, "a key is not a plain value"));
                    };
                    if map.contains_key(&name) {
                        return Err(YamlError::new(line, format_args!("the key {name:?} occurs twice")));
                    }
                    if depth == 1 {
                        let place = match place {
                            Place::Line(range) => range,
                            _ => return Err(YamlError::new(line, "a key is not on one line")),
                        };
                        self.document.keys.push(Key { name: name.clone(), place, value: Place::Other });
                    }
                    *key = Some(name);
                }
                Some(name) => {
                    if depth == 1
                        && let Some(last) = self.document.keys.last_mut()
                    {
                        last.value = place;
                    }
                    map.insert(name, value);
                }
            },
        }
        Ok(())
    }

    fn spend(&mut self, count: usize, line: usize) -> Result<(), YamlError> {
        self.count = self.count.saturating_add(count);
        if self.count > MAX_YAML_VALUES {
            return Err(YamlError::new(line, format_args!("it has more than {MAX_YAML_VALUES} values")));
        }
        Ok(())
    }

    fn place_of(&self, span: Span, style: ScalarStyle) -> Place {
        let start = self.offsets.of(span.start.index());
        let rest = self.yaml.get(start..).unwrap_or_default();
        // The parser's position behind a quoted value is that of the next token.
        let len = match style {
            ScalarStyle::Plain => {
                let end = self.offsets.of(span.end.index());
                rest.get(..end.saturating_sub(start)).map(|text| text.trim_end().len())
            }
            ScalarStyle::SingleQuoted => quoted(rest, b'\'', None),
            ScalarStyle::DoubleQuoted => quoted(rest, b'"', Some(b'\\')),
            _ => None,
        };
        match len.and_then(|len| rest.get(..len)) {
            Some(text) if !text.contains(['\n', '\r']) => Place::Line(start..start + text.len()),
            _ => Place::Other,
        }
    }

    fn starts_with(&self, span: Span, letter: char) -> bool {
        let at = self.offsets.of(span.start.index());
        self.yaml.get(at..).is_some_and(|rest| rest.starts_with(letter))
    }

    fn finish(mut self) -> Result<Document, YamlError> {
        match self.root {
            Some(Value::Object(values)) => self.document.values = values,
            None | Some(Value::Null) => {}
            Some(_) => return Err(YamlError::new(1, "it is not a list of keys with values")),
        }
        Ok(self.document)
    }
}

/// Byte offsets of characters.
struct Offsets<'y> {
    yaml: &'y str,
    /// The offset of each character, if some are longer than a byte.
    table: Option<Vec<u32>>,
}

impl<'y> Offsets<'y> {
    fn new(yaml: &'y str) -> Self {
        let table = (!yaml.is_ascii()).then(|| yaml.char_indices().map(|(at, _)| at as u32).collect());
        Self { yaml, table }
    }

    fn of(&self, index: usize) -> usize {
        match &self.table {
            Some(table) => table.get(index).map_or(self.yaml.len(), |at| *at as usize),
            None => index.min(self.yaml.len()),
        }
    }
}

/// The length of a quoted value with its quotes. In single quotes, a quote is doubled.
fn quoted(text: &str, quote: u8, escape: Option<u8>) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        if Some(*byte) == escape || (*byte == quote && escape.is_none() && bytes.get(at + 1) == Some(&quote))
        {
            at += 2;
        } else if *byte == quote {
            return Some(at + 1);
        } else {
            at += 1;
        }
    }
    None
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(size).sum(),
        Value::Object(map) => map.values().map(|value| 1 + size(value)).sum(),
        _ => 0,
    }
}

fn key_text(value: Value) -> Value {
    match value {
        Value::Null => Value::String("null".to_owned()),
        Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        other => other,
    }
}

/// The value of a scalar by the core schema of YAML 1.2.
fn scalar(text: String, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::String(text);
    }
    match text.as_str() {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(&text).map_or_else(|| Value::String(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(octal) = text.strip_prefix("0o") {
        return u64::from_str_radix(octal, 8).ok().filter(|_| !octal.starts_with('+')).map(Number::from);
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+')).map(Number::from);
    }
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_number {
        return None;
    }
    let bare = text.strip_prefix('+').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // Leading zeros are those of identifiers, which must not be lost.
        if digits.len() > 1 && digits.starts_with('0') {
            return None;
        }
        return bare.parse::<i64>().map(Number::from).or_else(|_| bare.parse::<u64>().map(Number::from)).ok();
    }
    bare.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(yaml: &str) -> Value {
        Value::Object(parse(yaml).unwrap())
    }

    #[test]
    fn values_have_the_types_of_the_core_schema() {
        let yaml = "a: 1\nb: -2.5\nc: true\nd: ~\ne:\nf: text # c\ng: '1'\nh: [x, 2]\ni: {j: k}\nl: 2026-01-02\nm: 007\nn: 0x1f\no: 1.2.3\np: |\n  x\n  y\n";
        let expected = json!({
            "a": 1, "b": -2.5, "c": true, "d": null, "e": null, "f": "text", "g": "1", "h": ["x", 2], "i": {"j": "k"},
            "l": "2026-01-02", "m": "007", "n": 31, "o": "1.2.3", "p": "x\ny\n",
        });
        assert_eq!(parsed(yaml), expected);
        assert_eq!(parsed(""), json!({}));
        assert_eq!(parsed("# only a comment\n"), json!({}));
    }

    #[test]
    fn aliases_are_resolved_within_limits() {
        assert_eq!(parsed("a: &x [1]\nb: *x\n"), json!({"a": [1], "b": [1]}));
        assert!(parse("a: &x [*x]\n").is_err());
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(parse(&bomb).unwrap_err().reason.contains("values"));
    }

    #[test]
    fn what_is_not_front_matter_is_refused_with_its_line() {
        let deep = format!("a: {}{}", "[".repeat(10_000), "]".repeat(10_000));
        let wide = format!("a: [{}]", "1,".repeat(MAX_YAML_VALUES));
        for yaml in [&*deep, &wide, "- a\n", "text\n", "a: 1\n...\n---\nb: 2\n", "? [a]\n: b\n", "a: *none\n"]
        {
            parse(yaml).unwrap_err();
        }
        assert_eq!(parse("a: 1\nb: 2\na: 3\n").unwrap_err().line, 3);
        assert_eq!(parse("a: 1\nb: [\n").unwrap_err().line, 3);
    }
}
