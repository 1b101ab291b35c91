//! Answers the renames that a filter reports.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libc::{
    SECCOMP_IOCTL_NOTIF_ID_VALID, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
    SECCOMP_USER_NOTIF_FLAG_CONTINUE, seccomp_notif, seccomp_notif_resp,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use super::caller::{Caller, Place};
use super::directory::move_directory;

/// What a supervisor has done.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RenameStats {
    /// Renames that were reported.
    pub reported: u64,
    /// Those of directories of the overlay, which were answered here.
    pub directories: u64,
}

/// Serves the processes with one filter.
#[derive(Debug)]
pub struct RenameSupervisor {
    listener: OwnedFd,
    /// The overlay, as these processes see it.
    at: PathBuf,
    device: OnceLock<u64>,
}

/// What is done with a reported call.
enum Answer {
    /// The kernel carries it out.
    Continue,
    Done(Result<(), Errno>),
}

impl RenameSupervisor {
    /// Serves a filter's listener. `at` is where the overlay is mounted in the mount namespace of the processes; which file
    /// system is there is read when the first of them renames something.
    pub fn new(listener: OwnedFd, at: &Path) -> Self {
        Self { listener, at: at.to_owned(), device: OnceLock::new() }
    }

    /// Serves a filter's listener, for processes that must not have a say in which mount it is: `root` is their root
    /// directory, opened before they ran, and `at` is where the overlay is mounted in it.
    pub fn beneath(listener: OwnedFd, root: BorrowedFd<'_>, at: &Path) -> io::Result<Self> {
        let at = at.strip_prefix("/").unwrap_or(at);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mount = openat2(root, at, flags, Mode::empty(), resolve)?;
        let device = OnceLock::from(fstat(&mount)?.st_dev);
        Ok(Self { listener, at: at.to_owned(), device })
    }

    /// Serves until the last process with the filter has ended.
    pub fn run(&self) -> io::Result<RenameStats> {
        let mut stats = RenameStats::default();
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let events = fds[0].revents();
            if events.contains(PollFlags::IN) {
                self.step(&mut stats)?;
            } else if events.intersects(PollFlags::HUP | PollFlags::ERR) {
                return Ok(stats);
            }
        }
    }

    /// Serves one report, for callers with a loop of their own. Call it when the descriptor is readable.
    pub fn step(&self, stats: &mut RenameStats) -> io::Result<()> {
        // SAFETY: the structure consists of integers, and the kernel requires it to be zero.
        let mut report: seccomp_notif = unsafe { std::mem::zeroed() };
        match self.ioctl(SECCOMP_IOCTL_NOTIF_RECV, &raw mut report) {
            Ok(()) => {}
            // The caller was killed before it could be served.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => return Ok(()),
            Err(error) => return Err(error),
        }
        stats.reported += 1;
        // Whatever cannot be read or found is left to the kernel, which says what is wrong with it.
        let answer = self.answer(&report).unwrap_or(Answer::Continue);
        // SAFETY: as above.
        let mut response: seccomp_notif_resp = unsafe { std::mem::zeroed() };
        response.id = report.id;
        match answer {
            Answer::Continue => response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            Answer::Done(result) => {
                stats.directories += 1;
                response.error = result.err().map_or(0, |error| -error.raw_os_error());
            }
        }
        match self.ioctl(SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) {
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(error),
            _ => Ok(()),
        }
    }

    fn answer(&self, report: &seccomp_notif) -> io::Result<Answer> {
        let [a, b, c, d, e, _] = report.data.args;
        let here = libc::AT_FDCWD;
        let (from, old, to, new, flags) = match i64::from(report.data.nr) {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => (here, a, here, b, 0),
            libc::SYS_renameat => (a as i32, b, c as i32, d, 0),
            libc::SYS_renameat2 => (a as i32, b, c as i32, d, e as u32),
            _ => return Ok(Answer::Continue),
        };
        let Some(flags) = RenameFlags::from_bits(flags) else { return Ok(Answer::Continue) };
        let caller = Caller::open(report.pid)?;
        let source = caller.place(from, &caller.string(old)?)?;
        let target = caller.place(to, &caller.string(new)?)?;
        // The thread may have died meanwhile, and another one have its number.
        let mut id = report.id;
        self.ioctl(SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id)?;
        if !self.is_ours(&caller, &source, &target)? {
            return Ok(Answer::Continue);
        }
        let (from, to) = (source.directory.as_fd(), target.directory.as_fd());
        Ok(Answer::Done(move_directory(from, &source.name, to, &target.name, flags)))
    }

    /// Whether a directory is renamed within the overlay.
    fn is_ours(&self, caller: &Caller, source: &Place, target: &Place) -> io::Result<bool> {
        let device = match self.device.get() {
            Some(device) => *device,
            None => {
                let mut path = self.at.as_os_str().as_bytes().to_vec();
                path.extend_from_slice(b"/x");
                let found = caller.place(libc::AT_FDCWD, &path)?.device()?;
                *self.device.get_or_init(|| found)
            }
        };
        if source.device()? != device || target.device()? != device {
            return Ok(false);
        }
        let stat = source.stat()?;
        Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_dev == device)
    }

    fn ioctl<T>(&self, request: libc::Ioctl, argument: *mut T) -> io::Result<()> {
        // SAFETY: each request is used with the type that the kernel declares for it, and the pointer is valid.
        let result = unsafe { libc::ioctl(self.listener.as_raw_fd(), request, argument) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for RenameSupervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
