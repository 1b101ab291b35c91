//! Versions of notes as callers name them.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Names the content of a note: equal contents have equal etags. 32 hexadecimal digits of its BLAKE3 hash.
#[derive(Clone, Copy, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Etag([u8; Self::LEN]);

impl Etag {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// The etag of a content.
    pub fn of(content: &[u8]) -> Self {
        let mut bytes = [0; Self::LEN];
        let hash = blake3::hash(content);
        bytes.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Reads 32 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::LEN || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for Etag {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("an etag has 32 hexadecimal digits")
    }
}

impl From<Etag> for String {
    fn from(etag: Etag) -> Self {
        etag.to_string()
    }
}

impl JsonSchema for Etag {
    fn schema_name() -> Cow<'static, str> {
        "Etag".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9a-f]{32}$",
            "description": "Names the content of a note. Pass it as if_match to change only that version.",
        })
    }
}

/// What a note must be for a change to happen.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum IfMatch {
    /// It must not exist.
    Absent,
    /// It must have this content.
    Is(Etag),
}

const ABSENT: &str = "absent";

impl TryFrom<String> for IfMatch {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == ABSENT {
            return Ok(Self::Absent);
        }
        Etag::parse(&text).map(Self::Is).ok_or("if_match is an etag of 32 hexadecimal digits, or \"absent\"")
    }
}

impl From<IfMatch> for String {
    fn from(expected: IfMatch) -> Self {
        match expected {
            IfMatch::Absent => ABSENT.to_owned(),
            IfMatch::Is(etag) => etag.to_string(),
        }
    }
}

impl JsonSchema for IfMatch {
    fn schema_name() -> Cow<'static, str> {
        "IfMatch".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([0-9a-f]{32}|absent)$",
            "description": "The etag that the note must have, or `absent` if it must not exist.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_is_read_back_from_its_text() {
        let etag = Etag::of(b"text");
        assert_eq!(Etag::parse(&etag.to_string()), Some(etag));
        for wrong in ["", "12", "+0000000000000000000000000000000", &"g".repeat(32)] {
            assert_eq!(Etag::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn if_match_is_an_etag_or_absent() {
        for expected in [IfMatch::Absent, IfMatch::Is(Etag::of(b""))] {
            let text = serde_json::to_string(&expected).unwrap();
            assert_eq!(serde_json::from_str::<IfMatch>(&text).unwrap(), expected);
        }
        assert!(serde_json::from_str::<IfMatch>("\"*\"").is_err());
    }
}
