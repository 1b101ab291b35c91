//! Private user and mount namespaces, and short-lived child processes in them.
//!
//! What runs in a child between fork and exec must not allocate or take locks, because other threads of the parent may
//! have held them; everything it needs is prepared before.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::UnshareFlags;

/// How a process enters namespaces of its own. Root needs no user namespace.
#[derive(Clone, Debug)]
pub(crate) struct Namespaces {
    user: Option<Maps>,
}

#[derive(Clone, Debug)]
struct Maps {
    uid: Vec<u8>,
    gid: Vec<u8>,
}

impl Namespaces {
    /// A user namespace in which the caller keeps its own ids, and a mount namespace.
    pub(crate) fn with_user() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let line = |id: u32| format!("{id} {id} 1").into_bytes();
        Self { user: Some(Maps { uid: line(uid), gid: line(gid) }) }
    }

    /// A mount namespace, with a user namespace if the caller is not root.
    pub(crate) fn as_needed() -> Self {
        if rustix::process::geteuid().is_root() { Self { user: None } } else { Self::with_user() }
    }

    /// Moves the calling process, which must have one thread, into the namespaces. Mounts made from then on are not seen
    /// outside.
    pub(crate) fn enter(&self) -> Result<(), Errno> {
        let mut flags = UnshareFlags::NEWNS;
        if self.user.is_some() {
            flags |= UnshareFlags::NEWUSER;
        }
        // SAFETY: no file descriptor table is unshared, so no descriptor is affected.
        unsafe { rustix::thread::unshare_unsafe(flags) }?;
        if let Some(maps) = &self.user {
            match write_file(c"/proc/self/setgroups", b"deny") {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
            write_file(c"/proc/self/gid_map", &maps.gid)?;
            write_file(c"/proc/self/uid_map", &maps.uid)?;
        }
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
    }
}

fn write_file(path: &CStr, bytes: &[u8]) -> Result<(), Errno> {
    let fd = openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let written = rustix::io::write(&fd, bytes)?;
    if written == bytes.len() { Ok(()) } else { Err(Errno::IO) }
}

/// Runs a function in a forked child and returns what it returned: a step and the error there, or success.
pub(crate) fn in_child(
    work: impl FnOnce() -> Result<(), (u8, Errno)>,
) -> io::Result<Result<(), (u8, Errno)>> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // SAFETY: the child runs `work`, which by the rule of this module needs nothing of other threads, and exits.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            report(&writer, work());
            // SAFETY: ends the child without running the handlers of the parent's program.
            unsafe { libc::_exit(0) }
        }
        pid => {
            drop(writer);
            let answer = read_report(reader);
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
            }
            answer
        }
    }
}

fn report(writer: &impl AsFd, result: Result<(), (u8, Errno)>) {
    let (step, error) = match result {
        Ok(()) => (0, 0),
        Err((step, error)) => (step, error.raw_os_error()),
    };
    let [a, b, c, d] = error.to_le_bytes();
    // A parent that does not get the report takes the child for killed.
    let _ = rustix::io::write(writer, &[step, a, b, c, d]);
}

fn read_report(reader: OwnedFd) -> io::Result<Result<(), (u8, Errno)>> {
    let mut bytes = Vec::new();
    File::from(reader).take(5).read_to_end(&mut bytes)?;
    match bytes.as_slice() {
        [_, 0, 0, 0, 0] => Ok(Ok(())),
        [step, a, b, c, d] => {
            let error = i32::from_le_bytes([*a, *b, *c, *d]);
            Ok(Err((*step, Errno::from_raw_os_error(error))))
        }
        _ => Err(io::Error::other("the child process was killed")),
    }
}
