//! Pax records: `<length> <key>=<value>\n`.

use std::io;

use agentiso_core::ports::Timestamp;
use base64::Engine as _;

/// Keys and values, in order.
pub type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// Splits the content of a pax header into its records; a value may hold any byte.
pub fn parse_pax(mut bytes: &[u8]) -> io::Result<Records> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "malformed pax header");
    let mut records = Vec::new();
    // Some writers pad the last block with NUL bytes.
    while bytes.first().is_some_and(|byte| *byte != 0) {
        let space = bytes.iter().take(12).position(|byte| *byte == b' ').ok_or_else(malformed)?;
        let length = std::str::from_utf8(&bytes[..space])
            .ok()
            .and_then(|digits| digits.parse::<usize>().ok())
            .ok_or_else(malformed)?;
        let record = bytes.get(space + 1..length).ok_or_else(malformed)?;
        let Some((b'\n', record)) = record.split_last() else { return Err(malformed()) };
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        records.push((record[..equals].to_vec(), record[equals + 1..].to_vec()));
        bytes = &bytes[length..];
    }
    Ok(records)
}

/// What pax headers say about a member: its own records win over those for the whole archive.
#[derive(Clone, Debug, Default)]
pub(super) struct Pax(pub(super) Records);

impl Pax {
    /// The value of a key; an empty value takes back an earlier one.
    pub(super) fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(found, _)| found == key.as_bytes());
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// The value of a key that must be a number if it is there.
    pub(super) fn number(&self, key: &str) -> io::Result<Option<u64>> {
        self.get(key).map(decimal).transpose()
    }

    /// The modification time with all its digits.
    pub(super) fn mtime(&self) -> Option<Timestamp> {
        let text = std::str::from_utf8(self.get("mtime")?).ok()?;
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let seconds: i64 = whole.parse().ok()?;
        let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        let nanos: u32 = digits.parse().ok()?;
        match (whole.starts_with('-'), nanos) {
            (true, 1..) => Some(Timestamp { seconds: seconds.checked_sub(1)?, nanos: 1_000_000_000 - nanos }),
            _ => Some(Timestamp { seconds, nanos }),
        }
    }

    /// Extended attributes, in the form of any tar program.
    pub(super) fn xattrs(&self) -> Records {
        let mut xattrs: Records = Vec::new();
        for (key, value) in &self.0 {
            let found = if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                Some((name.to_vec(), value.clone()))
            } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
                let engine = base64::engine::general_purpose::GeneralPurpose::new(
                    &base64::alphabet::STANDARD,
                    base64::engine::GeneralPurposeConfig::new()
                        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
                );
                engine.decode(value).ok().map(|value| (percent_decoded(name), value))
            } else {
                None
            };
            if let Some((name, value)) = found {
                xattrs.retain(|(known, _)| *known != name);
                xattrs.push((name, value));
            }
        }
        xattrs
    }
}

/// A decimal number.
pub(super) fn decimal(text: &[u8]) -> io::Result<u64> {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a number in a header is none"))
}

fn percent_decoded(name: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%').then(|| after.get(..2)).flatten();
        match hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
        {
            Some(byte) => {
                decoded.push(byte);
                rest = &after[2..];
            }
            None => {
                decoded.push(*first);
                rest = after;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let body = key.len() + value.len() + 3;
        let length = (body + 1..).find(|length| length.to_string().len() + body == *length).unwrap();
        [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
    }

    #[test]
    fn values_may_hold_newlines_and_equal_signs() {
        let bytes =
            [record("SCHILY.xattr.security.capability", b"\x01\n=\n\x02"), record("path", b"a\nb")].concat();
        let pax = Pax(parse_pax(&bytes).unwrap());
        assert_eq!(pax.get("path").unwrap(), b"a\nb");
        assert_eq!(pax.xattrs(), [(b"security.capability".to_vec(), b"\x01\n=\n\x02".to_vec())]);
    }

    #[test]
    fn both_ways_to_write_an_attribute_mean_the_same() {
        let pax = Pax(vec![(b"LIBARCHIVE.xattr.user.a%3Db".to_vec(), b"aGVsbG8".to_vec())]);
        assert_eq!(pax.xattrs(), [(b"user.a=b".to_vec(), b"hello".to_vec())]);
        let both = Pax(vec![
            (b"LIBARCHIVE.xattr.user.x".to_vec(), b"aGVsbG8=".to_vec()),
            (b"SCHILY.xattr.user.x".to_vec(), b"hello".to_vec()),
        ]);
        assert_eq!(both.xattrs(), [(b"user.x".to_vec(), b"hello".to_vec())]);
    }

    #[test]
    fn times_keep_their_fraction_on_both_sides_of_the_epoch() {
        let at = |text: &str| Pax(vec![(b"mtime".to_vec(), text.as_bytes().to_vec())]).mtime().unwrap();
        assert_eq!(at("12.5"), Timestamp { seconds: 12, nanos: 500_000_000 });
        assert_eq!(at("12"), Timestamp { seconds: 12, nanos: 0 });
        assert_eq!(at("-1.25"), Timestamp { seconds: -2, nanos: 750_000_000 });
    }

    #[test]
    fn malformed_records_are_refused() {
        for bad in
            [&b"8 path=x\n"[..], b"path=x\n", b"12 path=xxxx\n", b"99999999999999999999 a=b\n", b"3 \n"]
        {
            assert!(parse_pax(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_fail_but_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse_pax(&bytes).map(Pax).map(|pax| (pax.xattrs(), pax.mtime()));
        }

        #[test]
        fn what_is_written_is_read(value in proptest::collection::vec(any::<u8>(), 1..200)) {
            let records = parse_pax(&record("key", &value)).unwrap();
            prop_assert_eq!(records, vec![(b"key".to_vec(), value)]);
        }
    }
}
