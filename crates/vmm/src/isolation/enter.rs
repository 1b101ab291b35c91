//! Entering the private root. Runs between fork and exec, so it only makes system calls.

use std::ffi::CStr;
use std::io;

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat};
use rustix::io::Errno;

use super::plan::{Entry, HOST, SameUser, Step, plain};

const OLD_ROOT: &CStr = c"/.host";
const ROOT: &CStr = c"/";
const TMPFS: &CStr = c"tmpfs";

/// The step that failed. Steps of the plan are counted from [`Stage::STEPS`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stage(pub u32);

impl Stage {
    const UNSHARE: Self = Self(0);
    const SAME_USER: Self = Self(1);
    const PRIVATE: Self = Self(2);
    const EMPTY_ROOT: Self = Self(3);
    const PIVOT: Self = Self(4);
    const LEAVE_HOST: Self = Self(5);
    const READ_ONLY: Self = Self(6);
    const LANDLOCK: Self = Self(7);
    const STEPS: u32 = 16;
}

impl Entry {
    /// Enters new namespaces with a root that contains only the visible files. If it fails the process must exit.
    pub(crate) fn enter(&self) -> Result<(), (Stage, Errno)> {
        let at = |stage: Stage| move |errno| (stage, errno);
        let user = if self.same_user.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let namespaces = libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | user;
        // SAFETY: this call takes a number.
        check(unsafe { libc::unshare(namespaces) }).map_err(at(Stage::UNSHARE))?;
        if let Some(same) = &self.same_user {
            stay(same).map_err(at(Stage::SAME_USER))?;
        }
        // Mounts made here must not propagate to the host.
        mount(None, ROOT, None, libc::MS_REC | libc::MS_PRIVATE, None).map_err(at(Stage::PRIVATE))?;
        // SAFETY: this call takes a number. Directories must be open to the user that QEMU becomes.
        let umask = unsafe { libc::umask(0o022) };
        self.empty_root().map_err(at(Stage::EMPTY_ROOT))?;
        pivot().map_err(at(Stage::PIVOT))?;
        for (number, step) in (Stage::STEPS..).zip(&self.steps) {
            step.take().map_err(at(Stage(number)))?;
        }
        leave_host().map_err(at(Stage::LEAVE_HOST))?;
        remount_read_only(ROOT).map_err(at(Stage::READ_ONLY))?;
        // SAFETY: this call takes a number.
        unsafe { libc::umask(umask) };
        match &self.landlock {
            Some(ruleset) => ruleset.apply().map_err(at(Stage::LANDLOCK)),
            None => Ok(()),
        }
    }

    fn empty_root(&self) -> Result<(), Errno> {
        let flags = libc::MS_NOSUID | libc::MS_NODEV;
        mount(Some(TMPFS), &self.staging, Some(TMPFS), flags, Some(c"mode=755,size=1m"))?;
        // SAFETY: the string ends with a zero byte.
        check(unsafe { libc::chdir(self.staging.as_ptr()) })
    }

    /// Describes a stage, for error messages.
    pub(crate) fn describe(&self, stage: Stage) -> String {
        let user = if self.same_user.is_some() { "user, " } else { "" };
        match stage {
            Stage::UNSHARE => format!("make {user}mount, network and ipc namespaces"),
            Stage::SAME_USER => "stay the same user in a user namespace".to_owned(),
            Stage::PRIVATE => "keep its mounts to itself".to_owned(),
            Stage::EMPTY_ROOT => "mount an empty root".to_owned(),
            Stage::PIVOT => "make the empty root its own".to_owned(),
            Stage::LEAVE_HOST => "let go of the host's root".to_owned(),
            Stage::READ_ONLY => "make the root read-only".to_owned(),
            Stage::LANDLOCK => "apply Landlock".to_owned(),
            Stage(number) => match self.steps.get((number.saturating_sub(Stage::STEPS)) as usize) {
                Some(Step::Directory(path) | Step::File(path)) => format!("make {} in it", plain(path)),
                Some(Step::Bind { from, .. }) => format!("show {} in it", plain(from)),
                None => "isolate it".to_owned(),
            },
        }
    }
}

impl Step {
    fn take(&self) -> Result<(), Errno> {
        match self {
            Self::Directory(path) => unless_there(mkdirat(CWD, path, Mode::from_raw_mode(0o755))),
            Self::File(path) => {
                unless_there(mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o600), 0))
            }
            Self::Bind { from, at, read_only } => {
                // Recursive, because /usr/lib for example may contain mounts.
                mount(Some(from), at, None, libc::MS_BIND | libc::MS_REC, None)?;
                if *read_only { remount_read_only(at) } else { Ok(()) }
            }
        }
    }
}

/// Maps the user and group to themselves. The kernel requires that setgroups is denied first.
fn stay(same: &SameUser) -> Result<(), Errno> {
    write(c"/proc/self/setgroups", b"deny")?;
    write(c"/proc/self/uid_map", &same.uid_map)?;
    write(c"/proc/self/gid_map", &same.gid_map)
}

fn pivot() -> Result<(), Errno> {
    // SAFETY: the strings end with a zero byte.
    unsafe {
        check(libc::mkdir(c".host".as_ptr(), 0o700))?;
        let done = libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".host".as_ptr());
        check(i32::try_from(done).unwrap_or(-1))?;
        check(libc::chdir(ROOT.as_ptr()))
    }
}

fn leave_host() -> Result<(), Errno> {
    debug_assert_eq!(OLD_ROOT.to_bytes(), HOST.as_bytes());
    // SAFETY: the strings end with a zero byte.
    unsafe {
        check(libc::umount2(OLD_ROOT.as_ptr(), libc::MNT_DETACH))?;
        check(libc::rmdir(OLD_ROOT.as_ptr()))
    }
}

/// Makes a mount read-only and keeps its other flags: the kernel refuses to clear flags that are locked.
fn remount_read_only(at: &CStr) -> Result<(), Errno> {
    let kept = rustix::fs::statvfs(at)?.f_flag.bits();
    let same = [
        (libc::ST_NOSUID, libc::MS_NOSUID),
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ];
    let mut flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
    for (kept_as, flag) in same {
        if kept & kept_as != 0 {
            flags |= flag;
        }
    }
    mount(None, at, None, flags, None)
}

fn mount(
    from: Option<&CStr>,
    at: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    data: Option<&CStr>,
) -> Result<(), Errno> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: each pointer is null or to a string that ends with a zero byte.
    check(unsafe { libc::mount(pointer(from), at.as_ptr(), pointer(kind), flags, pointer(data).cast()) })
}

fn write(path: &CStr, text: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text).map(drop)
}

fn unless_there(done: Result<(), Errno>) -> Result<(), Errno> {
    match done {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

pub(super) fn check(done: i32) -> Result<(), Errno> {
    if done == -1 { Err(last_error()) } else { Ok(()) }
}

pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
