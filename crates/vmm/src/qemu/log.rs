//! Reading the end of a log.
#![expect(clippy::disallowed_methods, reason = "called through `in_place`, and only to explain a failure")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Reads the last `limit` bytes of a file, from the start of a line where possible.
pub(crate) fn read_tail(path: &Path, limit: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit)))?;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(match text.split_once('\n') {
        Some((_, rest)) if length > limit => rest.to_owned(),
        _ => text.into_owned(),
    })
}

/// Whether a line is a warning or a note of QEMU's, which does not explain why it ended.
pub fn is_remark(line: &str) -> bool {
    line.contains(": warning: ") || line.contains(": info: ")
}
