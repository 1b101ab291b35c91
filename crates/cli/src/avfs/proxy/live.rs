//! Output while a command runs.

use agentiso_proxy::OutputStream;
use schemars::JsonSchema;
use serde::Serialize;

/// Output as it arrives, with `--json --stream`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct OutputEvent {
    /// The version of this form: 1.
    pub schema_version: u32,
    /// Always `proxy_exec_output`.
    pub kind: &'static str,
    /// Where it was written.
    pub stream: OutputStream,
    /// What was written. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
}

/// The part of some output that has no character cut in two, and the rest.
pub fn whole(bytes: &[u8]) -> (&[u8], &[u8]) {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.split_at(error.valid_up_to()),
        _ => (bytes, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_not_complete_waits_for_its_rest() {
        let text = "aü".as_bytes();
        assert_eq!(whole(text), (text, &[][..]));
        assert_eq!(whole(&text[..2]), (&b"a"[..], &text[1..2]));
        assert_eq!(whole(b"a\xff"), (&b"a\xff"[..], &[][..]));
    }
}
