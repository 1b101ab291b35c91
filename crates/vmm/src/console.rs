//! The log of the serial console, bounded in size.
//!
//! When `console.log` is full it is renamed to `console.log.1` and a new one is started, so the last lines are always
//! available and a guest cannot fill the host's disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentiso_blocking::in_place;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::watch;

use crate::qemu::read_tail;

/// The size at which a new file is started.
const TURN_OVER: u64 = 1 << 20;
/// How much of the console is shown in an error.
const TAIL: u64 = 8192;
const TAIL_LINES: usize = 20;
/// How long reading the last output of an ended machine may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
const KERNEL_PANIC: &str = "Kernel panic";
const PANIC_CONTEXT: usize = 3;

/// The console of one machine. Dropping it disconnects, so that another process can connect.
#[derive(Debug)]
pub struct Console {
    path: PathBuf,
    pump: Option<Pump>,
}

/// The task that reads the console.
#[derive(Debug)]
struct Pump {
    task: tokio::task::AbortHandle,
    /// Closed when everything was read.
    reading: watch::Receiver<()>,
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.task.abort();
        }
    }
}

impl Console {
    /// Copies `stream` to `path` for as long as the machine runs.
    pub fn record(path: &Path, stream: UnixStream) -> io::Result<Self> {
        let log = in_place(|| Log::open(path))?;
        let (until_the_end, reading) = watch::channel(());
        let task = tokio::spawn(async move {
            pump(stream, log).await;
            drop(until_the_end);
        });
        Ok(Self { path: path.to_owned(), pump: Some(Pump { task: task.abort_handle(), reading }) })
    }

    /// The last lines of a machine that has ended. Waits a moment for output that was not read yet.
    pub async fn last_lines(&self) -> String {
        if let Some(pump) = &self.pump {
            let mut reading = pump.reading.clone();
            let _ = tokio::time::timeout(LAST_WORDS, reading.changed()).await;
        }
        self.tail()
    }

    /// The last lines.
    pub fn tail(&self) -> String {
        let text = in_place(|| {
            let mut text = read_tail(&self.path, TAIL).unwrap_or_default();
            if text.lines().count() < TAIL_LINES {
                let earlier = read_tail(&older(&self.path), TAIL).unwrap_or_default();
                text.insert_str(0, &earlier);
            }
            text
        });
        let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        // The first line of a kernel panic matters more than the registers printed after it.
        let start = match lines.iter().rposition(|line| line.contains(KERNEL_PANIC)) {
            Some(panic) => panic.saturating_sub(PANIC_CONTEXT),
            None => lines.len().saturating_sub(TAIL_LINES),
        };
        lines[start..].iter().take(TAIL_LINES).copied().collect::<Vec<_>>().join("\n")
    }
}

async fn pump(mut stream: UnixStream, mut log: Log) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        // A log that cannot be written must not stall the guest: keep reading.
        let _ = in_place(|| log.append(&buffer[..length]));
    }
}

struct Log {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length })
    }

    #[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.length + bytes.len() as u64 > TURN_OVER {
            fs::rename(&self.path, older(&self.path))?;
            *self = Self::open(&self.path)?;
        }
        self.length += bytes.len() as u64;
        self.file.write_all(bytes)
    }
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_guest_that_prints_for_ever_does_not_fill_the_disk_and_its_last_line_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let log = Log::open(&path).unwrap();
        let recording = tokio::spawn(pump(ours, log));
        for number in 0..200_000 {
            guest.write_all(format!("line number {number}\n").as_bytes()).await.unwrap();
        }
        drop(guest);
        recording.await.unwrap();
        let size: u64 = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(size <= 2 * TURN_OVER, "{size}");
        let tail = Console { path, pump: None }.tail();
        assert!(tail.ends_with("line number 199999"), "{tail}");
        assert_eq!(tail.lines().count(), TAIL_LINES);
    }

    #[tokio::test]
    async fn a_panic_is_shown_from_its_first_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("console.log");
        let registers: String = (0..60).map(|number| format!("R{number}: 0000\n")).collect();
        fs::write(&path, format!("earlier\n[ 1.0] Kernel panic - not syncing: why\n{registers}")).unwrap();
        let tail = Console { path, pump: None }.tail();
        assert!(tail.starts_with("earlier\n[ 1.0] Kernel panic - not syncing: why\nR0"), "{tail}");
        assert_eq!(tail.lines().count(), TAIL_LINES);
    }

    #[tokio::test]
    async fn what_was_said_last_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let console = Console::record(&dir.path().join("console.log"), ours).unwrap();
        // Nothing has been read yet: the task that reads runs on this very thread.
        guest.try_write(b"I give up\n").unwrap();
        guest.shutdown().await.unwrap();
        drop(guest);
        assert_eq!(console.last_lines().await, "I give up");
    }

    #[tokio::test]
    async fn a_console_that_said_nothing_has_an_empty_tail() {
        let console = Console { path: "/nonexistent/console.log".into(), pump: None };
        assert_eq!(console.tail(), "");
    }
}
