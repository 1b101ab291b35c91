//! Copies of another process's memory. The other process is this test program, started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use agentiso_core::MemoryId;

use super::super::files::MemoryFiles;
use super::super::reader::Target;
use super::*;
use crate::qemu::Memory;

/// Names the file the other process maps.
const MAPPED: &str = "AGENTISO_TEST_MAPPED";
/// Pages of the guest.
const GUEST: u64 = 3 * LITTLE;

/// Does what a QEMU does to its guest's memory: maps a file privately and writes to it when told.
#[test]
#[ignore = "started by the tests below"]
fn the_other_process() {
    let Ok(path) = std::env::var(MAPPED) else { return };
    let file = File::open(path).unwrap();
    let (null, protection) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
    let length = GUEST as usize * PAGE;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let memory = unsafe { libc::mmap(null, length, protection, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
    assert_ne!(memory, libc::MAP_FAILED);
    // A thread that waits for a futex, as QEMU has one.
    let (_sender, receiver) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || receiver.recv());
    let mut out = std::io::stdout();
    writeln!(out, "\nready").unwrap();
    for line in std::io::stdin().lines() {
        let numbers: Vec<usize> = line.unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
        let [first, count, byte] = numbers[..] else { panic!() };
        for page in first..first + count {
            // SAFETY: within the mapping made above.
            unsafe { memory.cast::<u8>().add(page * PAGE).write_bytes(byte as u8, PAGE) };
        }
        writeln!(out, "done").unwrap();
    }
}

struct Other {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    base: std::path::PathBuf,
}

impl Other {
    fn start(dir: &Path) -> Self {
        let base = dir.join("base");
        File::create(&base).unwrap().set_len(GUEST * PAGE as u64).unwrap();
        File::options().write(true).open(&base).unwrap().write_all_at(&[9; 64 * PAGE], 0).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "memory::copy::tests::the_other_process"])
            .env(MAPPED, &base)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut other = Self { child, stdin, stdout, base };
        other.wait_for("ready");
        other
    }

    fn wait_for(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the other process ended");
        }
    }

    fn write(&mut self, pages: std::ops::Range<u64>, byte: u8) {
        writeln!(self.stdin, "{} {} {byte}", pages.start, pages.end - pages.start).unwrap();
        self.wait_for("done");
    }

    fn ram(&self) -> GuestRam {
        GuestRam::locate(self.child.id(), &Memory::Private(self.base.clone()), GUEST * PAGE as u64).unwrap()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first byte of every page that was put; `None` of those that were not.
struct Guest(Mutex<Vec<Option<u8>>>);

impl Target for Guest {
    fn put(&self, pages: &Pages) -> io::Result<()> {
        for (number, page) in pages.iter() {
            assert!(page.iter().all(|&byte| byte == page[0]), "page {number} is torn");
            self.0.lock().unwrap()[number as usize] = Some(page[0]);
        }
        Ok(())
    }
}

fn writer(files: &MemoryFiles) -> ImageWriter {
    let id = MemoryId::from_uuid(uuid::Uuid::now_v7());
    ImageWriter::create(files, id, GUEST * PAGE as u64, None).unwrap()
}

fn finish(files: &MemoryFiles, copied: CopiedMemory) -> Vec<Option<u8>> {
    let (image, _) = copied.finish(b"device").unwrap();
    let guest = Guest(Mutex::new(vec![None; GUEST as usize]));
    files.put_into(&image, &guest).unwrap();
    guest.0.into_inner().unwrap()
}

fn expected(parts: &[(std::ops::Range<u64>, u8)]) -> Vec<Option<u8>> {
    let mut pages = vec![None; GUEST as usize];
    for (range, byte) in parts {
        pages[range.start as usize..range.end as usize].fill(Some(*byte));
    }
    pages
}

fn kernel() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn a_copy_made_while_the_process_writes_has_what_was_written_last() {
    if kernel() < (6, 7) {
        // Writes cannot be tracked. The other test shows what happens then.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = MemoryFiles::new(dir.path().join("memory"));
    let mut other = Other::start(dir.path());
    for round in 0..2u8 {
        let large = 100..100 + LITTLE * 2;
        other.write(large.clone(), 1 + round);
        let mut copy = MemoryCopy::start(other.ram(), writer(&files)).unwrap();
        assert!(copy.tracker.is_some());
        // Already copied, not yet its own, and zeros.
        other.write(200..210, 30 + round);
        other.write(3..5, 40 + round);
        other.write(300..301, 0);
        copy.keep_up(&AtomicBool::new(true)).unwrap();
        let changed = copy.pass().unwrap();
        assert_eq!(changed, 13);
        other.write(205..206, 50 + round);
        let copied = copy.take_rest().unwrap();
        assert_eq!(copied.rest.runs(), [Run { first: 205, count: 1 }]);
        // What is written from now on is not in the copy.
        other.write(100..400, 60);
        let parts = [
            (large, 1 + round),
            (200..210, 30 + round),
            (3..5, 40 + round),
            (300..301, 0),
            (205..206, 50 + round),
        ];
        assert_eq!(finish(&files, copied), expected(&parts));
    }
}

#[test]
fn a_copy_made_in_one_pause_has_everything() {
    let dir = tempfile::tempdir().unwrap();
    let files = MemoryFiles::new(dir.path().join("memory"));
    let mut other = Other::start(dir.path());
    other.write(7..LITTLE - 10, 1);
    let copy = MemoryCopy::start(other.ram(), writer(&files)).unwrap();
    assert!(copy.tracker.is_none(), "few pages are not copied beforehand");
    other.write(9..10, 2);
    let copied = copy.take_rest().unwrap();
    assert_eq!(finish(&files, copied), expected(&[(7..LITTLE - 10, 1), (9..10, 2)]));
}
