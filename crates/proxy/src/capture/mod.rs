//! What a command writes: the beginning and the end in memory, everything in a file if there is more.
//!
//! ```text
//!  head full? ─no─► head
//!      │ yes
//!      ▼
//!   tail (a ring) ── more than both hold ──► the file gets everything so far, and all that follows up to a limit
//! ```

mod spill;
mod text;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::PathBuf;

use crate::envelope::{CaptureReport, Encoding};
use spill::Spill;
use text::{whole_end, whole_start};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// How much of a stream is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes of the beginning in the envelope.
    pub head: usize,
    /// Bytes of the end in the envelope.
    pub tail: usize,
    /// Bytes of the file.
    pub file: u64,
}

impl Limits {
    /// 64 KiB from each end, and a file of at most 256 MiB.
    pub const DEFAULT: Self = Self { head: 64 << 10, tail: 64 << 10, file: 256 << 20 };
}

/// A stream that is being captured.
pub struct Capture {
    limits: Limits,
    path: PathBuf,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
    spill: Spill,
}

/// A captured stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// The text for the envelope.
    pub text: String,
    /// What happened to the stream.
    pub report: CaptureReport,
    /// Why the file does not have everything, if it is not for its limit.
    pub warning: Option<String>,
}

impl Capture {
    /// Captures a stream. The file at `path` is only created if the stream is longer than what is kept in memory.
    pub fn new(limits: Limits, path: PathBuf) -> Self {
        let (head, tail) = (Vec::new(), VecDeque::new());
        Self { limits, path, head, tail, total: 0, spill: Spill::None }
    }

    /// Captures everything that can be read, and passes each chunk on.
    pub fn drain(mut self, mut from: impl Read, mut pass_on: impl FnMut(&[u8])) -> Captured {
        let mut chunk = vec![0; CHUNK];
        let mut failed = None;
        loop {
            match from.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => {
                    pass_on(&chunk[..read]);
                    self.add(&chunk[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    failed = Some(format!("could not read the output to its end: {error}"));
                    break;
                }
            }
        }
        let mut captured = self.end();
        captured.report.complete &= failed.is_none();
        captured.warning = failed.or(captured.warning);
        captured
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let kept = (self.limits.head + self.limits.tail) as u64;
        let before = self.total;
        self.total += bytes.len() as u64;
        if self.total > kept {
            if before <= kept {
                // Everything so far is still in memory.
                self.spill = Spill::create(&self.path, self.limits.file);
                self.spill.write(&self.head);
                let (front, back) = self.tail.as_slices();
                self.spill.write(front);
                self.spill.write(back);
            }
            self.spill.write(bytes);
        }
        let for_head = bytes.len().min(self.limits.head - self.head.len());
        self.head.extend(&bytes[..for_head]);
        // Only the last bytes of a long chunk can stay.
        let rest = &bytes[for_head..];
        let rest = &rest[rest.len().saturating_sub(self.limits.tail)..];
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.limits.tail);
        self.tail.drain(..surplus);
        self.tail.extend(rest);
    }

    /// Ends the capture.
    pub fn end(mut self) -> Captured {
        let tail = self.tail.make_contiguous();
        let kept = (self.head.len() + tail.len()) as u64;
        let truncated = self.total > kept;
        let (text, omitted, lossy) = if truncated {
            let (head, tail) = (whole_end(&self.head), whole_start(tail));
            let omitted = self.total - (head.len() + tail.len()) as u64;
            let (start, end) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
            let lossy = std::str::from_utf8(head).is_err() || std::str::from_utf8(tail).is_err();
            let file = match self.spill.path() {
                Some(path) => format!("; see {}", path.display()),
                None => String::new(),
            };
            (format!("{start}\n[... {omitted} bytes omitted{file} ...]\n{end}"), omitted, lossy)
        } else {
            let mut whole = self.head;
            whole.extend_from_slice(tail);
            let lossy = std::str::from_utf8(&whole).is_err();
            let text = match String::from_utf8(whole) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            };
            (text, 0, lossy)
        };
        let (file, file_bytes, warning) = self.spill.end();
        let report = CaptureReport {
            bytes: self.total,
            truncated,
            omitted_bytes: omitted,
            encoding: if lossy { Encoding::Lossy } else { Encoding::Utf8 },
            complete: !truncated || file_bytes == self.total,
            file: file.map(|path| path.display().to_string()),
            file_bytes,
        };
        Captured { text, report, warning }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use tempfile::tempdir;

    use super::*;

    const SMALL: Limits = Limits { head: 4, tail: 4, file: 1 << 20 };

    fn captured(limits: Limits, chunks: &[&[u8]], path: PathBuf) -> Captured {
        let mut capture = Capture::new(limits, path);
        chunks.iter().for_each(|chunk| capture.add(chunk));
        capture.end()
    }

    #[test]
    fn short_output_is_kept_whole_and_makes_no_file() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("out");
        let seen = captured(SMALL, &[b"abc", b"defgh"], path.clone());
        assert_eq!(seen.text, "abcdefgh");
        assert!(seen.report.complete && !seen.report.truncated && seen.report.file.is_none());
        assert!(!path.exists());
    }

    #[test]
    fn of_long_output_both_ends_are_kept_and_the_file_has_it_all() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("out");
        let seen = captured(SMALL, &[b"abcde", b"fghij", b"klmnop"], path.clone());
        let name = path.display().to_string();
        assert_eq!(seen.text, format!("abcd\n[... 8 bytes omitted; see {name} ...]\nmnop"));
        assert_eq!(seen.report.omitted_bytes, 8);
        assert_eq!((seen.report.bytes, seen.report.file_bytes), (16, 16));
        assert_eq!(seen.report.file.as_deref(), Some(name.as_str()));
        assert!(seen.report.complete && seen.report.truncated);
        assert_eq!(fs::read(&path).unwrap(), b"abcdefghijklmnop");
    }

    #[test]
    fn a_file_that_reaches_its_limit_is_not_called_complete() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("out");
        let seen = captured(Limits { file: 10, ..SMALL }, &[b"0123456789", b"abc"], path.clone());
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
        assert_eq!((seen.report.file_bytes, seen.report.bytes), (10, 13));
        assert!(!seen.report.complete);
        assert_eq!(seen.warning, None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_reported_and_the_ends_are_kept() {
        let dir = tempdir().unwrap();
        let seen = captured(SMALL, &[b"0123456789"], dir.path().join("no/such/dir"));
        assert_eq!(seen.report.file, None);
        assert!(!seen.report.complete);
        assert_eq!(seen.text, "0123\n[... 2 bytes omitted ...]\n6789");
        assert!(seen.warning.unwrap().contains("could not keep all of the output"));
    }

    #[test]
    fn characters_are_not_cut_in_two_and_other_bytes_are_reported() {
        let dir = tempdir().unwrap();
        let seen = captured(SMALL, &["aüü|öö|".as_bytes(), "ßßß".as_bytes()], dir.path().join("out"));
        assert!(seen.text.starts_with("aü\n[... ") && seen.text.ends_with("ßß"), "{}", seen.text);
        assert_eq!(seen.report.encoding, Encoding::Utf8);
        let seen = captured(SMALL, &[b"a\xffb"], dir.path().join("out"));
        assert_eq!((seen.text.as_str(), seen.report.encoding), ("a\u{fffd}b", Encoding::Lossy));
        assert!(!seen.report.truncated && seen.report.complete);
    }

    proptest! {
        #[test]
        fn what_is_kept_does_not_depend_on_how_it_arrives(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            cuts in proptest::collection::vec(0usize..40, 0..4),
            head in 0usize..9,
            tail in 0usize..9,
        ) {
            let dir = tempdir().unwrap();
            let limits = Limits { head, tail, file: 1 << 20 };
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let path = dir.path().join("out");
            let once = captured(limits, &[&bytes], path.clone());
            let parts = captured(limits, &chunks, path.clone());
            prop_assert_eq!(&once, &parts);
            prop_assert_eq!(once.report.truncated, bytes.len() > head + tail);
            prop_assert!(once.report.complete);
            if once.report.truncated {
                prop_assert_eq!(fs::read(&path).unwrap(), bytes);
            }
        }
    }
}
