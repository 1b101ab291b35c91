//! Cutting text between characters.

/// The longest character in UTF-8.
const LONGEST: usize = 4;

/// The bytes without a character at the end that was cut in two.
pub fn whole_end(bytes: &[u8]) -> &[u8] {
    let Err(error) = std::str::from_utf8(bytes) else { return bytes };
    // Bytes that are not UTF-8 anyway stay.
    match error.error_len() {
        None => &bytes[..error.valid_up_to()],
        Some(_) => bytes,
    }
}

/// The bytes without the rest of a character at the start.
pub fn whole_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(LONGEST - 1).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[rest..]
}
