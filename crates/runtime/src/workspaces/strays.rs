//! QEMU processes that no workspace knows.
//!
//! A process that is killed between starting QEMU and recording it leaves one behind. Such a QEMU is found by the disk on
//! its command line, and must be gone before its disk is removed or given to another machine. So a QEMU that cannot be
//! found or ended for some other reason than that it is gone is an error.
#![expect(clippy::disallowed_methods, reason = "both functions run `in_place`")]

use std::fs;
use std::io;
use std::path::Path;

use agentiso_blocking::in_place;
use agentiso_core::DiskId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::pinned::disk_id_of;

/// How long the kernel may take to end a killed process.
const LIMIT: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// Processes that have a disk of `dir` on their command line.
pub(super) fn qemus_on(dir: &Path) -> io::Result<Vec<(u32, DiskId)>> {
    in_place(|| qemus_in(Path::new("/proc"), dir))
}

fn qemus_in(proc: &Path, dir: &Path) -> io::Result<Vec<(u32, DiskId)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let command = match fs::read(entry.path().join("cmdline")) {
            Ok(command) => command,
            Err(error) if is_not_ours(&error) => continue,
            Err(error) => return Err(error),
        };
        for word in command.split(|&byte| byte == 0) {
            let Some(path) = std::str::from_utf8(word).ok().and_then(|word| word.rsplit_once("file=")) else {
                continue;
            };
            let path = path.1.replace(",,", ",");
            if Path::new(&path).parent() == Some(dir)
                && let Some(disk) = disk_id_of(Path::new(&path))
            {
                found.push((pid, disk));
            }
        }
    }
    Ok(found)
}

/// Whether a process has ended, or belongs to a user whose processes we may not look at.
fn is_not_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// Kills a process and waits until it is gone.
pub(super) fn end(pid: u32) -> io::Result<()> {
    in_place(|| end_blocking(pid))
}

fn end_blocking(pid: u32) -> io::Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::other(format!("{pid} is not a process id")))?;
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Err(Errno::SRCH) => return Ok(()),
        opened => opened?,
    };
    match pidfd_send_signal(&process, Signal::KILL) {
        Err(Errno::SRCH) => return Ok(()),
        sent => sent?,
    }
    match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&LIMIT))? {
        0 => Err(io::Error::new(io::ErrorKind::TimedOut, format!("QEMU (process {pid}) does not end"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_qemu_is_found_by_its_disk_and_processes_that_cannot_be_read_are_an_error() {
        let (proc, dir) = (tempfile::tempdir().unwrap(), Path::new("/home/disks"));
        let disk = uuid::Uuid::now_v7();
        let process = |pid: &str, command: &str| {
            fs::create_dir(proc.path().join(pid)).unwrap();
            fs::write(proc.path().join(pid).join("cmdline"), command.replace(' ', "\0")).unwrap();
        };
        process("12", &format!("qemu -drive if=none,file=/home/disks/{disk}.qcow2"));
        process("13", &format!("qemu -drive file=/elsewhere/{disk}.qcow2"));
        fs::create_dir(proc.path().join("14")).unwrap();
        fs::create_dir(proc.path().join("self")).unwrap();
        assert_eq!(qemus_in(proc.path(), dir).unwrap(), [(12, DiskId::from_uuid(disk))]);
        // Reading a directory fails: whether this process is a QEMU of ours is unknown.
        fs::create_dir(proc.path().join("14/cmdline")).unwrap();
        assert!(qemus_in(proc.path(), dir).is_err());
        assert!(qemus_in(&proc.path().join("none"), dir).is_err());
    }

    #[test]
    fn a_process_is_gone_once_it_was_ended_and_may_be_gone_before() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        end(child.id()).unwrap();
        assert!(child.try_wait().unwrap().is_some());
        end(child.id()).unwrap();
        assert!(end(0).is_err());
    }
}
