//! Reading while computing a digest.

use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

/// Reads from `inner` and computes the length and digest of everything read.
pub(super) struct Verified<R> {
    inner: R,
    hasher: Sha256,
    length: u64,
}

impl<R: Read> Verified<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new(), length: 0 }
    }

    /// How much has been read.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads the rest, then returns the length and digest of everything.
    pub(super) fn finish(mut self) -> io::Result<(u64, String)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.length, digest_text(&self.hasher.finalize())))
    }
}

impl<R: Read> Read for Verified<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..got]);
        self.length += got as u64;
        Ok(got)
    }
}

/// The digest of some bytes, as `sha256:…`.
pub(in crate::source) fn digest_of(bytes: &[u8]) -> String {
    digest_text(&Sha256::digest(bytes))
}

/// The hexadecimal part of a digest of the only kind we accept.
pub(in crate::source) fn sha256_hex(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then_some(hex)
}

/// A hash as `sha256:…`.
pub(in crate::source) fn digest_text(hash: &[u8]) -> String {
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}
