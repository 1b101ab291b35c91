//! Landlock: restricts what a process may do with files, the network and other processes.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::enter::last_error;
use super::plan::c_string;
use super::{Access, Shown};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The rights that apply to files.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

/// `struct landlock_ruleset_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Attributes {
    files: u64,
    network: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: i32,
}

/// The permitted accesses.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Ruleset {
    handled: Attributes,
    rules: Vec<(CString, u64)>,
}

/// The Landlock version of this kernel; `None` if it is not supported or not enabled.
pub(super) fn version() -> Option<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel wants neither attributes nor a size.
    let found =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(found).ok().filter(|version| *version > 0)
}

impl Attributes {
    /// All rights that a version can restrict.
    fn all(version: u32) -> Self {
        let last_of_files = match version {
            0 | 1 => 13,
            2 => 14,
            3 | 4 => 15,
            _ => 16,
        };
        Self {
            files: (1 << last_of_files) - 1,
            // Binding and connecting TCP sockets.
            network: if version >= 4 { 0b11 } else { 0 },
            // Abstract unix sockets and signals.
            scoped: if version >= 6 { 0b11 } else { 0 },
        }
    }
}

impl Ruleset {
    /// Allows exactly the visible files, with their access.
    pub fn plan(version: u32, shown: &[&Shown]) -> io::Result<Self> {
        let handled = Attributes::all(version);
        let rule = |one: &&Shown| {
            let is_dir = one.host.is_dir();
            let kind = if is_dir { OF_FILES | READ_DIR } else { OF_FILES };
            Ok((c_string(&one.at)?, allowed(one.access) & kind & handled.files))
        };
        Ok(Self { handled, rules: shown.iter().map(rule).collect::<io::Result<_>>()? })
    }

    /// Applies the restrictions to this process, irrevocably.
    pub fn apply(&self) -> Result<(), Errno> {
        const PATH_BENEATH: u32 = 1;
        // SAFETY: `handled` is what the kernel expects, of the size that is said.
        let made = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const self.handled,
                size_of::<Attributes>(),
                0u32,
            )
        };
        let made = i32::try_from(made).ok().filter(|made| *made >= 0).ok_or_else(last_error)?;
        // SAFETY: the kernel has just opened it for us.
        let ruleset = unsafe { OwnedFd::from_raw_fd(made) };
        for (path, allowed) in &self.rules {
            let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let rule = PathBeneath { allowed: *allowed, parent: place.as_raw_fd() };
            // SAFETY: `rule` is what the kernel expects for a rule of this kind.
            let added = unsafe {
                libc::syscall(
                    libc::SYS_landlock_add_rule,
                    ruleset.as_raw_fd(),
                    PATH_BENEATH,
                    &raw const rule,
                    0u32,
                )
            };
            if added != 0 {
                return Err(last_error());
            }
        }
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: this call takes a descriptor and a number.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0u32) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }
}

fn allowed(access: Access) -> u64 {
    match access {
        Access::Read => EXECUTE | READ_FILE | READ_DIR,
        Access::Write | Access::WriteWithin => READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_only_for_what_it_knows() {
        let files = |version| Attributes::all(version).files;
        assert_eq!([1, 2, 3, 4, 5, 9].map(files), [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff]);
        let rest = |version| (Attributes::all(version).network, Attributes::all(version).scoped);
        assert_eq!([3, 4, 5, 6].map(rest), [(0, 0), (3, 0), (3, 0), (3, 3)]);
    }

    #[test]
    fn nothing_can_be_made_or_removed_and_only_the_disk_is_written() {
        let (libraries, device) =
            (Shown::in_place("/usr/lib", Access::Read), Shown::in_place("/dev/null", Access::Write));
        let shown = [&libraries, &device];
        let ruleset = Ruleset::plan(7, &shown).unwrap();
        assert_eq!(ruleset.rules[0].1, EXECUTE | READ_FILE | READ_DIR);
        assert_eq!(ruleset.rules[1].1, READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV);
        let old = Ruleset::plan(1, &shown).unwrap();
        assert_eq!(old.rules[1].1, READ_FILE | WRITE_FILE);
    }
}
