//! JSON to YAML for the value of one key.

use serde_json::Value;

/// How lists are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Lists {
    /// One item per line.
    Block,
    /// `[a, b]`
    Flow,
}

/// The value as it is written behind `key:`, with what separates the two. Lines are indented by `indent` and separated
/// by `\n`.
pub(super) fn value(value: &Value, indent: usize, lists: Lists) -> String {
    let mut text = String::new();
    match value {
        Value::Array(list) if !list.is_empty() && lists == Lists::Block => block(value, indent, &mut text),
        Value::Object(map) if !map.is_empty() => block(value, indent + 2, &mut text),
        _ => {
            text.push(' ');
            flow(value, &mut text);
        }
    }
    text
}

fn block(value: &Value, indent: usize, text: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Value::Array(list) if !list.is_empty() => {
            for item in list {
                text.push_str(&format!("\n{pad}  - "));
                flow(item, text);
            }
        }
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                text.push_str(&format!("\n{pad}{}:", string(key)));
                match value {
                    Value::Object(inner) if !inner.is_empty() => block(value, indent + 2, text),
                    Value::Array(inner) if !inner.is_empty() => block(value, indent, text),
                    _ => {
                        text.push(' ');
                        flow(value, text);
                    }
                }
            }
        }
        _ => flow(value, text),
    }
}

fn flow(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
        Value::String(content) => text.push_str(&string(content)),
        Value::Array(list) => {
            text.push('[');
            for (index, item) in list.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                flow(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (index, (key, value)) in map.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ", " });
                text.push_str(&string(key));
                text.push_str(": ");
                flow(value, text);
            }
            text.push('}');
        }
    }
}

/// A text as a plain scalar where every YAML parser reads it as that text, else in quotes.
pub(super) fn string(text: &str) -> String {
    if is_plain(text) || is_date(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{feff}' | '\u{2028}' | '\u{2029}' | '\u{7f}'..='\u{9f}' | '\0'..='\u{1f}' => {
                quoted.push_str(&format!("\\u{:04x}", letter as u32));
            }
            '\u{fffe}' | '\u{ffff}' => quoted.push_str(&format!("\\u{:04x}", letter as u32)),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

fn is_plain(text: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/' | '.' | ' ');
    let begins = text.starts_with(|letter: char| letter.is_alphabetic() || letter == '_');
    begins && text.chars().all(is_word) && !text.ends_with(' ') && !is_reserved(text)
}

/// Words that some version of YAML reads as something else than text.
fn is_reserved(text: &str) -> bool {
    let words = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];
    words.contains(&&*text.to_ascii_lowercase())
}

/// A date, or a date with a time, which Obsidian writes without quotes.
fn is_date(text: &str) -> bool {
    let form: String =
        text.chars().map(|letter| if letter.is_ascii_digit() { '0' } else { letter }).collect();
    matches!(&*form, "0000-00-00" | "0000-00-00T00:00" | "0000-00-00T00:00:00" | "0000-00-00T00:00:00Z")
}
