//! Extended attributes: names and values, sorted by name.

use std::collections::BTreeMap;

use super::codec::{Malformed, Reader, Writer};
use crate::error::StoreError;
use crate::limits::{MAX_ATTRIBUTES, MAX_NAME};

const MAGIC: &[u8; 4] = b"AiTX";
const VERSION: u8 = 1;

/// The extended attributes of one file or directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Attributes(pub BTreeMap<Vec<u8>, Vec<u8>>);

impl Attributes {
    /// Encodes the attributes; refuses more than a tree may hold.
    pub fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let mut writer = Writer::new(MAGIC, VERSION);
        writer.number(self.0.len() as u64);
        for (name, value) in &self.0 {
            if !is_valid(name) {
                return Err(StoreError::invalid(
                    "the name of an extended attribute",
                    "1 to 255 bytes, no NUL",
                ));
            }
            writer.bytes(name);
            writer.bytes(value);
        }
        if writer.0.len() > MAX_ATTRIBUTES {
            let reason = format!("together they are larger than {MAX_ATTRIBUTES} bytes");
            return Err(StoreError::invalid("the extended attributes", reason));
        }
        Ok(writer.0)
    }

    /// Decodes attributes.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        Self::parse(bytes).map_err(|Malformed(reason)| StoreError::damaged("a set of attributes", reason))
    }

    fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes, MAGIC, VERSION)?;
        let mut map = BTreeMap::new();
        for _ in 0..reader.count(2)? {
            let name = reader.bytes(MAX_NAME)?.to_vec();
            if !is_valid(&name) {
                return Err(Malformed("the name of an attribute is invalid"));
            }
            if map.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(Malformed("its names are not sorted"));
            }
            map.insert(name, reader.bytes(MAX_ATTRIBUTES)?.to_vec());
        }
        reader.end()?;
        Ok(Self(map))
    }
}

fn is_valid(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(&0)
}
