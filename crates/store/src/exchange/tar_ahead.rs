//! What an archive says about an entry ahead of it: extensions of POSIX and long names of GNU.

use std::io::Read;

use tar::{Entry, EntryType};

use super::tar_in::parse_time;
use crate::error::StoreError;
use crate::import::is_kept_attribute;
use crate::node::Time;
use crate::object::Attributes;

/// Largest header of this kind.
const MAX_LEN: u64 = 4 << 20;
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Overrides of the next entry.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) mtime: Option<Time>,
    pub(super) attributes: Attributes,
}

impl Ahead {
    /// Reads an entry that describes the next one; says whether it was such an entry.
    pub(super) fn take(&mut self, entry: &mut Entry<'_, impl Read>) -> Result<bool, StoreError> {
        let kind = entry.header().entry_type();
        match kind {
            EntryType::XGlobalHeader => {}
            EntryType::GNULongName => self.path = Some(text(&read(entry)?)),
            EntryType::GNULongLink => self.link = Some(text(&read(entry)?)),
            EntryType::XHeader => self.extensions(&read(entry)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn extensions(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let (key, value, rest) =
                record(bytes).ok_or_else(|| StoreError::archive("an extension is malformed"))?;
            self.set(key, value)?;
            bytes = rest;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let malformed = || StoreError::archive(format_args!("{} is malformed", String::from_utf8_lossy(key)));
        let number =
            || std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed);
        match key {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"uid" => self.uid = Some(number()?),
            b"gid" => self.gid = Some(number()?),
            b"mtime" => self.mtime = Some(parse_time(value).ok_or_else(malformed)?),
            b"size" => {
                return Err(StoreError::archive("a file of 8 GiB or more is not in the format of GNU tar"));
            }
            _ if key.starts_with(b"GNU.sparse.") => {
                return Err(StoreError::archive("a file is in GNU's format for sparse files"));
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR).filter(|name| is_kept_attribute(name)) {
                    self.attributes.0.insert(name.to_vec(), value.to_vec());
                }
            }
        }
        Ok(())
    }
}

fn read(entry: &mut Entry<'_, impl Read>) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    entry.take(MAX_LEN + 1).read_to_end(&mut bytes).map_err(StoreError::archive)?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(StoreError::archive("an extension is too large"));
    }
    Ok(bytes)
}

/// Without the zero byte at the end.
fn text(bytes: &[u8]) -> Vec<u8> {
    bytes.strip_suffix(b"\0").unwrap_or(bytes).to_vec()
}

/// Key and value of the first record, `LENGTH KEY=VALUE\n`, and what follows it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let len: usize = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let body = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    Some((body.get(..equals)?, body.get(equals + 1..)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_contain_line_breaks_and_equals_signs() {
        let mut ahead = Ahead::default();
        ahead.extensions(b"28 SCHILY.xattr.user.k=v\n=1\n12 path=a\nb\n").unwrap();
        assert_eq!(ahead.attributes.0.get(&b"user.k"[..]).unwrap(), b"v\n=1");
        assert_eq!(ahead.path.unwrap(), b"a\nb");
    }

    #[test]
    fn malformed_records_are_refused() {
        for bad in
            [&b"x"[..], b"5 a=b\n", b"99 path=a\n", b"0 \n", b"6 path\n", b"18446744073709551616 a=b\n"]
        {
            assert!(Ahead::default().extensions(bad).is_err(), "{}", String::from_utf8_lossy(bad));
        }
    }
}
