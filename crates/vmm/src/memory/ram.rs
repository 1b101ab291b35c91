//! The memory of a guest in the address space of its QEMU.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

use super::pages::{self, PAGE, Pages, Run};
use super::scan;
use super::track::WriteTracker;
use crate::qemu::Memory;

/// The most segments per call of `process_vm_readv` and `process_vm_writev`.
const PLACES: usize = 1024;
/// With fewer pages than this, a second thread costs more than it saves.
const WORTH_A_THREAD: u64 = 2048;
const THREADS: usize = 2;

/// The location of a guest's memory.
#[derive(Debug)]
pub struct GuestRam {
    pid: i32,
    pagemap: File,
    address: u64,
    length: u64,
}

impl GuestRam {
    /// Finds the memory of the guest that runs in a process.
    pub fn locate(pid: u32, memory: &Memory, length: u64) -> io::Result<Self> {
        let inode = match memory {
            Memory::Anonymous => 0,
            Memory::Private(base) => fs::metadata(base)?.ino(),
            Memory::Shared(_) => return Err(io::Error::other("shared memory is in its file")),
        };
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let fits = |found: &Mapping| found.inode == inode && found.end - found.start == length;
        let mut found = maps.lines().filter_map(Mapping::parse).filter(fits);
        let address = match (found.next(), found.next()) {
            (Some(mapping), None) => mapping.start,
            (None, _) => return Err(io::Error::other("the guest's memory was not found in QEMU")),
            (Some(_), Some(_)) => {
                return Err(io::Error::other("more than one mapping of QEMU could be the guest's memory"));
            }
        };
        let pid = i32::try_from(pid).map_err(io::Error::other)?;
        Ok(Self { pid, pagemap: File::open(format!("/proc/{pid}/pagemap"))?, address, length })
    }

    /// The pages the guest has written since it was cloned from its base.
    pub fn own_pages(&self) -> io::Result<Vec<Run>> {
        let mut runs = Vec::new();
        scan::own_pages(&self.pagemap, self.range(), |from, to| {
            pages::append(&mut runs, self.run(from, to))
        })?;
        Ok(runs)
    }

    /// Starts to track which pages are written to.
    pub(super) fn track(&self) -> io::Result<WriteTracker> {
        WriteTracker::start(self.pid, self.address, self.length)
    }

    /// The private pages that the guest has written since the last call. Writes must be tracked.
    pub(super) fn changed_pages(&self) -> io::Result<Vec<Run>> {
        let mut runs = Vec::new();
        let found = |from, to| pages::append(&mut runs, self.run(from, to));
        scan::changed_pages(&self.pagemap, self.range(), found)?;
        Ok(runs)
    }

    /// All private pages, and those that were written since the last [`GuestRam::changed_pages`].
    pub(super) fn own_and_changed(&self) -> io::Result<(Vec<Run>, Vec<Run>)> {
        let (mut own, mut changed) = (Vec::new(), Vec::new());
        scan::own_and_changed(&self.pagemap, self.range(), |from, to, written| {
            pages::append(&mut own, self.run(from, to));
            if written {
                pages::append(&mut changed, self.run(from, to));
            }
        })?;
        Ok((own, changed))
    }

    fn range(&self) -> Range<u64> {
        self.address..self.address + self.length
    }

    fn run(&self, from: u64, to: u64) -> Run {
        Run { first: (from - self.address) / PAGE as u64, count: (to - from) / PAGE as u64 }
    }

    /// Allocates memory for about as many pages as the guest has private ones, so that reading them does not wait for it.
    pub fn prepare(&self) -> io::Result<Pages> {
        let expected = pages::count(&self.own_pages()?);
        Ok(Pages::with_room(expected + expected / 8 + 256))
    }

    /// Reads the guest's private pages. The guest should be paused.
    pub fn take_own(&self, prepared: Pages) -> io::Result<Pages> {
        self.take(self.own_pages()?, prepared)
    }

    /// Reads some pages. The guest should be paused.
    pub(super) fn take(&self, runs: Vec<Run>, mut prepared: Pages) -> io::Result<Pages> {
        prepared.runs = runs;
        let bytes = pages::count(&prepared.runs) as usize * PAGE;
        prepared.content.resize(bytes, 1);
        let Pages { runs, content } = &mut prepared;
        in_pieces(runs, content, |runs, content| self.read(runs, content))?;
        Ok(prepared)
    }

    /// Writes pages into the guest, which must not have run yet.
    pub fn put(&self, pages: &Pages) -> io::Result<()> {
        let outside = |run: &Run| run.first + run.count > self.length / PAGE as u64;
        if pages.runs.iter().any(outside) {
            return Err(io::Error::other("a page lies outside of the guest's memory"));
        }
        if pages.count() < WORTH_A_THREAD {
            return self.write(&pages.runs, &pages.content);
        }
        std::thread::scope(|scope| {
            let mut rest = &pages.content[..];
            let mut workers = Vec::new();
            for piece in pages::split(&pages.runs, THREADS) {
                let (content, after) = rest.split_at(pages::count(&piece) as usize * PAGE);
                rest = after;
                workers.push(scope.spawn(move || self.write(&piece, content)));
            }
            workers.into_iter().try_for_each(join)
        })
    }

    /// Reads pages. `content` has exactly their size.
    pub(super) fn read(&self, runs: &[Run], content: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        for batch in runs.chunks(PLACES) {
            let bytes: usize = batch.iter().map(Run::bytes).sum();
            let local = libc::iovec { iov_base: content[done..].as_mut_ptr().cast(), iov_len: bytes };
            let remote = self.places(batch);
            // SAFETY: `local` lies within `content`, which is borrowed mutably and at least `bytes` longer than `done`
            // (checked by the slice and by the caller's sizes); the remote side is another process's.
            let copied = unsafe {
                libc::process_vm_readv(self.pid, &raw const local, 1, remote.as_ptr(), remote.len() as u64, 0)
            };
            check(copied, bytes)?;
            done += bytes;
        }
        Ok(())
    }

    fn write(&self, runs: &[Run], content: &[u8]) -> io::Result<()> {
        let mut done = 0;
        for batch in runs.chunks(PLACES) {
            let bytes: usize = batch.iter().map(Run::bytes).sum();
            let local = libc::iovec { iov_base: content[done..].as_ptr().cast_mut().cast(), iov_len: bytes };
            let remote = self.places(batch);
            // SAFETY: the kernel only reads through `local`, which lies within `content`; the remote side is another
            // process's.
            let copied = unsafe {
                libc::process_vm_writev(
                    self.pid,
                    &raw const local,
                    1,
                    remote.as_ptr(),
                    remote.len() as u64,
                    0,
                )
            };
            check(copied, bytes)?;
            done += bytes;
        }
        Ok(())
    }

    fn places(&self, runs: &[Run]) -> Vec<libc::iovec> {
        let place = |run: &Run| libc::iovec {
            iov_base: (self.address + run.offset()) as *mut libc::c_void,
            iov_len: run.bytes(),
        };
        runs.iter().map(place).collect()
    }
}

/// Fills one buffer from several threads.
fn in_pieces(
    runs: &[Run],
    content: &mut [u8],
    work: impl Fn(&[Run], &mut [u8]) -> io::Result<()> + Sync,
) -> io::Result<()> {
    if pages::count(runs) < WORTH_A_THREAD {
        return work(runs, content);
    }
    std::thread::scope(|scope| {
        let mut rest = content;
        let mut workers = Vec::new();
        for piece in pages::split(runs, THREADS) {
            let (content, after) = rest.split_at_mut(pages::count(&piece) as usize * PAGE);
            rest = after;
            let work = &work;
            workers.push(scope.spawn(move || work(&piece, content)));
        }
        workers.into_iter().try_for_each(join)
    })
}

fn join(worker: std::thread::ScopedJoinHandle<'_, io::Result<()>>) -> io::Result<()> {
    worker.join().unwrap_or_else(|_| Err(io::Error::other("copying guest memory failed")))
}

/// Turns a partial copy, after which the kernel could not access a page, into an error.
fn check(copied: isize, wanted: usize) -> io::Result<()> {
    match usize::try_from(copied) {
        Ok(copied) if copied == wanted => Ok(()),
        Ok(copied) => {
            Err(io::Error::other(format!("only {copied} of {wanted} bytes of guest memory were copied")))
        }
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// A line of `/proc/PID/maps`.
struct Mapping {
    start: u64,
    end: u64,
    inode: u64,
}

impl Mapping {
    /// Private and writable mappings only.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_ascii_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        if fields.next()? != "rw-p" {
            return None;
        }
        let inode = fields.nth(2)?.parse().ok()?;
        // Anonymous memory has no name; a heap or stack has one.
        if inode == 0 && fields.next().is_some() {
            return None;
        }
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { start: hex(start)?, end: hex(end)?, inode })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_writable_mappings_can_be_guest_memory() {
        let line = "7f0000000000-7f0010000000 rw-p 00000000 fe:00 1234                       /t/ram";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.end - mapping.start, mapping.inode), (256 << 20, 1234));
        assert!(Mapping::parse(&line.replace("rw-p", "r--p")).is_none());
        assert!(Mapping::parse(&line.replace("rw-p", "rw-s")).is_none());
        assert!(Mapping::parse("55d0-55d1 rw-p 00000000 00:00 0 [heap]").is_none());
        assert_eq!(Mapping::parse("55d0-55d1 rw-p 00000000 00:00 0").unwrap().inode, 0);
        assert!(Mapping::parse("nonsense").is_none());
    }
}
