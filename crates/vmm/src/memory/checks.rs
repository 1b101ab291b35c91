//! Checksums of memory images.
//!
//! The map contains a CRC-32 of every page in a pack, a BLAKE3 digest of the device state, and a digest of itself, so a
//! flipped bit in any of the three files is found before a guest runs with it. A CRC is enough against bad disks and torn
//! writes, and costs a restore almost nothing. It is no protection against an attacker who can write these files.

use std::io;

use super::pages::PAGE;

/// Bytes of the digest of a device state.
pub(super) const DIGEST: usize = 32;

/// The checksums of an image. Images of version 1 have none.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Checks {
    /// Digest of the device state.
    pub device: [u8; DIGEST],
    /// The checksums of all pages in packs, in the order of the map's entries.
    pub pages: Vec<u32>,
}

/// The checksum of a page.
pub(super) fn page_sum(page: &[u8]) -> u32 {
    crc32fast::hash(page)
}

/// The digest of a device state.
pub(super) fn device_digest(device: &[u8]) -> [u8; DIGEST] {
    *blake3::hash(device).as_bytes()
}

/// Compares pages with their checksums. `first` is the number of the first page in its pack.
pub(super) fn verify_pages(content: &[u8], sums: &[u32], first: u64) -> io::Result<()> {
    for (number, (page, &sum)) in (first..).zip(content.chunks_exact(PAGE).zip(sums)) {
        if page_sum(page) != sum {
            return Err(damaged(format!("page {number} of its pack does not match its checksum")));
        }
    }
    Ok(())
}

/// Compares a device state with its digest.
pub(super) fn verify_device(device: &[u8], digest: &[u8; DIGEST]) -> io::Result<()> {
    if device_digest(device) != *digest {
        return Err(damaged("the state of its devices does not match its checksum".to_owned()));
    }
    Ok(())
}

fn damaged(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_and_its_page_named() {
        let mut content = vec![7; 3 * PAGE];
        let sums: Vec<u32> = content.chunks_exact(PAGE).map(page_sum).collect();
        verify_pages(&content, &sums, 40).unwrap();
        content[PAGE + 17] ^= 1;
        let error = verify_pages(&content, &sums, 40).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(error.to_string(), "page 41 of its pack does not match its checksum");
        assert!(verify_device(b"state", &device_digest(b"State")).is_err());
    }
}
