//! Output of a command that may not fit into a result.
//!
//! The beginning and the end are kept in memory. As soon as something would be lost, all of it goes into a file of the
//! workspace as well, from the first byte on, so that a caller can read the rest without running the command again.

use agentiso_core::ports::link::{FileWriter, Link, LinkError, WriteOptions};
use agentiso_core::{Capture, Failure};
use uuid::Uuid;

/// Where the files are. Only root may write there.
const DIRECTORY: &str = "/var/lib/agentiso/output";
/// The most that is stored of one stream.
const LARGEST: u64 = 16 << 20;
/// How many files are kept; the oldest are removed.
const FILES: usize = 40;

/// The two outputs of a command.
pub(crate) struct Output {
    guest: Link,
    limit: usize,
    stdout: Stream,
    stderr: Stream,
}

/// One output of a command.
struct Stream {
    captured: Capture,
    path: String,
    file: Stored,
}

enum Stored {
    /// Everything is still in memory.
    NotNeeded,
    /// This many bytes are in the file so far.
    Writing(Box<dyn FileWriter>, u64),
    /// The file is complete, or has the most it may have.
    Written,
    /// The workspace could not take it.
    Failed,
}

/// The part of an output that is returned.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Shown {
    pub text: String,
    pub total: u64,
    pub cut: bool,
    pub file: Option<String>,
}

impl Output {
    /// Output of which at most `limit` bytes are returned.
    pub fn new(guest: Link, limit: usize) -> Self {
        let id = Uuid::new_v4().simple().to_string();
        let stream = |name| Stream {
            captured: Capture::new(limit),
            path: format!("{DIRECTORY}/{}.{name}", &id[..12]),
            file: Stored::NotNeeded,
        };
        Self { stdout: stream("stdout"), stderr: stream("stderr"), guest, limit }
    }

    /// Adds to standard output.
    pub async fn stdout(&mut self, bytes: &[u8]) {
        self.stdout.push(&self.guest, self.limit, bytes).await;
    }

    /// Adds to standard error.
    pub async fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(&self.guest, self.limit, bytes).await;
    }

    /// The parts of both outputs that are returned, within the limit together.
    pub async fn finish(mut self) -> (Shown, Shown) {
        let (out, err) = share(self.limit, self.stdout.captured.total(), self.stderr.captured.total());
        let stdout = self.stdout.finish(&self.guest, out).await;
        let stderr = self.stderr.finish(&self.guest, err).await;
        if stdout.file.is_some() || stderr.file.is_some() {
            // Old files are only in the way; that they could not be removed is no reason to fail.
            let _ = remove_oldest(&self.guest).await;
        }
        (stdout, stderr)
    }
}

impl Stream {
    async fn push(&mut self, guest: &Link, limit: usize, bytes: &[u8]) {
        if matches!(self.file, Stored::NotNeeded) && self.captured.total() + bytes.len() as u64 > limit as u64
        {
            self.begin(guest).await;
        }
        self.captured.push(bytes);
        self.write(bytes).await;
    }

    /// Begins the file with everything there is so far.
    async fn begin(&mut self, guest: &Link) {
        let Some(so_far) = self.captured.whole() else { return };
        let options = WriteOptions { mode: Some(0o644), append: false, parents: true };
        self.file = match guest.write_file(self.path.as_bytes(), options).await {
            Ok(file) => Stored::Writing(file, 0),
            Err(error) => failed(&error),
        };
        self.write(&so_far).await;
    }

    async fn write(&mut self, bytes: &[u8]) {
        let Stored::Writing(file, written) = &mut self.file else { return };
        let room = usize::try_from(LARGEST - *written).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        *written += bytes.len() as u64;
        if let Err(error) = file.write(bytes).await {
            self.file = failed(&error);
        }
    }

    async fn finish(&mut self, guest: &Link, limit: usize) -> Shown {
        let total = self.captured.total();
        let cut = total > limit as u64;
        if cut && matches!(self.file, Stored::NotNeeded) {
            self.begin(guest).await;
        }
        self.file = match std::mem::replace(&mut self.file, Stored::Failed) {
            Stored::Writing(file, _) => match file.finish().await {
                Ok(_) => Stored::Written,
                Err(error) => failed(&error),
            },
            other => other,
        };
        let file = matches!(self.file, Stored::Written).then(|| self.path.clone());
        let remark = |left_out| match &file {
            Some(path) => format!("[... {left_out} of {total} bytes left out; all of it is in {path} ...]"),
            None => format!("[... {left_out} of {total} bytes left out ...]"),
        };
        let text = self.captured.text_within(limit, remark);
        Shown { text, total, cut, file }
    }
}

fn failed(error: &LinkError) -> Stored {
    tracing::debug!(%error, "output could not be stored in the workspace");
    Stored::Failed
}

/// How much of a limit each of two outputs gets: what the shorter one does not need is the longer one's.
fn share(limit: usize, stdout: u64, stderr: u64) -> (usize, usize) {
    let bounded = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(limit);
    let (out, err) = (bounded(stdout), bounded(stderr));
    if out + err <= limit {
        return (out, err);
    }
    let half = limit / 2;
    match (out <= half, err <= half) {
        (true, _) => (out, limit - out),
        (_, true) => (limit - err, err),
        _ => (limit - half, half),
    }
}

async fn remove_oldest(guest: &Link) -> Result<(), Failure> {
    let mut files = guest.list(DIRECTORY.as_bytes()).await?;
    files.sort_by_key(|file| file.metadata.modified_ns);
    let excess = files.len().saturating_sub(FILES);
    for file in &files[..excess] {
        let path = [DIRECTORY.as_bytes(), b"/", &file.name].concat();
        guest.remove(&path, false).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_shorter_output_is_whole_and_the_longer_gets_the_rest() {
        assert_eq!(share(100, 40, 60), (40, 60));
        assert_eq!(share(100, 10, 1000), (10, 90));
        assert_eq!(share(100, 1000, 0), (100, 0));
        assert_eq!(share(100, 1000, 20), (80, 20));
        assert_eq!(share(101, 1000, 1000), (51, 50));
    }

    proptest! {
        #[test]
        fn shares_are_never_more_than_the_limit_nor_waste_it(limit in 0usize..1000, out in 0u64..2000, err in 0u64..2000) {
            let (a, b) = share(limit, out, err);
            prop_assert_eq!(a + b, limit.min(usize::try_from(out + err).unwrap()));
        }
    }
}
