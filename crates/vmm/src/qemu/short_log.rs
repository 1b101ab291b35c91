//! Keeps the log of a QEMU short.
//!
//! QEMU appends its own messages to a file, so that they outlive it and us. A guest that makes it complain for ever must
//! not fill the host's disk: whoever is with the machine cuts the log back to its last lines when it has grown.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at the log.
const EVERY: Duration = Duration::from_secs(1);
/// A log is cut when it is longer than this.
const LONGEST: u64 = 1 << 20;
/// What is left of it.
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
                // A log that is gone, or that cannot be cut now, is looked at again.
                let _ = cut(&path);
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

/// Cuts a log that is too long. QEMU appends, so it goes on behind what is left.
fn cut(path: &Path) -> io::Result<()> {
    // The directory may be QEMU's, which must not lead us elsewhere by a link.
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
