//! Bounds the size of QEMU's log.
//!
//! QEMU appends its messages to a file, which outlives both processes. A guest can make it log without end, so the
//! process connected to the machine truncates the log to its last lines when it grows too long.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_blocking::off_thread;

/// How often the size is checked.
const EVERY: Duration = Duration::from_secs(1);
/// A log is truncated when it is longer than this.
const LONGEST: u64 = 1 << 20;
/// How many bytes are kept.
const KEPT: u64 = 64 << 10;

/// Watches a log until it is dropped.
#[derive(Debug)]
pub(crate) struct ShortLog(tokio::task::AbortHandle);

impl ShortLog {
    /// Must be called within a tokio runtime.
    pub fn keep(path: PathBuf) -> Self {
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(EVERY).await;
                let path = path.clone();
                // On failure it is tried again the next time.
                let _ = off_thread(move || cut(&path)).await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for ShortLog {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Truncates a log that is too long. QEMU opened it for appending, so it continues after what is kept.
#[expect(clippy::disallowed_methods, reason = "called off the async threads")]
fn cut(path: &Path) -> io::Result<()> {
    // QEMU may own the directory, so a link in place of the log must not be followed.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let mut log = OpenOptions::new().read(true).append(true).custom_flags(flags).open(path)?;
    let about = log.metadata()?;
    if !about.is_file() || about.len() <= LONGEST {
        return Ok(());
    }
    log.seek(SeekFrom::Start(about.len() - KEPT))?;
    let mut last = Vec::new();
    (&mut log).take(KEPT).read_to_end(&mut last)?;
    let whole = last.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    log.set_len(0)?;
    log.write_all(&last[whole..])
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_without_end_keeps_its_last_lines_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("qemu.log");
        let mut qemu = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        for number in 0..100_000 {
            writeln!(qemu, "complaint number {number}").unwrap();
        }
        cut(&path).unwrap();
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.len() as u64 <= KEPT, "{}", left.len());
        assert!(left.starts_with("complaint number ") && left.ends_with("complaint number 99999\n"));
        writeln!(qemu, "another").unwrap();
        cut(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), left + "another\n", "a short one is left as it is");
    }

    #[test]
    fn a_link_in_the_place_of_the_log_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (precious, path) = (dir.path().join("precious"), dir.path().join("qemu.log"));
        fs::write(&precious, vec![1; 2 * LONGEST as usize]).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        cut(&path).unwrap_err();
        assert_eq!(fs::metadata(&precious).unwrap().len(), 2 * LONGEST);
    }
}
