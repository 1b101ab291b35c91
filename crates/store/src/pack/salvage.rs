//! Finds the good objects of a pack whose index cannot be used, by reading its records from the start.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::format::{HEADER_LEN, RECORD_LEN, RECORD_MAGIC, RecordHeader};
use super::reader::decode;
use crate::error::StoreError;

/// How much is searched at once for the next record after a damaged one.
const WINDOW: usize = 1 << 20;

/// Calls `found` with each object whose record and content are good.
pub(crate) fn salvage(
    path: &Path,
    mut found: impl FnMut(RecordHeader, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let len = file.metadata().map_err(StoreError::io("read", path))?.len();
    let read =
        |bytes: &mut [u8], at: u64| file.read_exact_at(bytes, at).map_err(StoreError::io("read", path));
    let mut at = HEADER_LEN as u64;
    while at + RECORD_LEN as u64 <= len {
        let mut head = [0; RECORD_LEN];
        read(&mut head, at)?;
        let header = RecordHeader::decode(&head)
            .filter(|header| at + RECORD_LEN as u64 + u64::from(header.stored) <= len);
        if let Some(header) = header {
            let mut record = vec![0; RECORD_LEN + header.stored as usize];
            read(&mut record, at)?;
            if decode(&header, record.get(RECORD_LEN..).unwrap_or_default().to_vec()).is_ok() {
                found(header, &record)?;
                at += record.len() as u64;
                continue;
            }
        }
        match next_magic(&read, at + 1, len)? {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(())
}

fn next_magic(
    read: &impl Fn(&mut [u8], u64) -> Result<(), StoreError>,
    mut at: u64,
    len: u64,
) -> Result<Option<u64>, StoreError> {
    while at + RECORD_MAGIC.len() as u64 <= len {
        let mut window = vec![0; WINDOW.min((len - at) as usize)];
        read(&mut window, at)?;
        if let Some(found) = window.windows(RECORD_MAGIC.len()).position(|bytes| bytes == RECORD_MAGIC) {
            return Ok(Some(at + found as u64));
        }
        // A magic may begin in the last bytes of the window.
        at += (window.len() - (RECORD_MAGIC.len() - 1)) as u64;
    }
    Ok(None)
}
