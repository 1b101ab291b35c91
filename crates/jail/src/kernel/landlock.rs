//! Landlock: restricts what a process may do with files, the network and processes outside.

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::process::check;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// The rights that apply to files; others apply to directories only.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;
/// Binding and connecting TCP sockets.
const TCP: u64 = 0b11;
/// Connecting to abstract unix sockets, and sending signals, outside.
const SCOPES: u64 = 0b11;

/// The first version that allows moving files between directories.
pub(crate) const USABLE: u32 = 2;

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

/// What may be done below a directory, or with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// Read and execute.
    Read,
    /// Read, execute, and write existing files, devices among them.
    Use,
    /// Everything, except for making device nodes.
    Change,
}

/// Restrictions that are being put together.
#[derive(Debug)]
pub(crate) struct Ruleset {
    fd: OwnedFd,
    handled: Attributes,
}

/// The Landlock version of this kernel; `None` if it is not supported or not enabled.
pub(crate) fn version() -> Option<u32> {
    const VERSION: u32 = 1;
    // SAFETY: with this flag the kernel wants neither attributes nor a size.
    let found =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, VERSION) };
    u32::try_from(found).ok().filter(|version| *version > 0)
}

impl Attributes {
    /// All rights that a version can restrict.
    fn all(version: u32, tcp: bool) -> Self {
        let last_of_files = match version {
            0 | 1 => 13,
            2 => 14,
            3 | 4 => 15,
            _ => 16,
        };
        Self {
            files: (1 << last_of_files) - 1,
            network: if version >= 4 && tcp { TCP } else { 0 },
            scoped: if version >= 6 { SCOPES } else { 0 },
        }
    }

    /// The size of the structure in a version.
    fn size(version: u32) -> usize {
        match version {
            0..=3 => 8,
            4 | 5 => 16,
            _ => 24,
        }
    }
}

impl Ruleset {
    /// Allows nothing. TCP is restricted only with `tcp`.
    pub fn new(version: u32, tcp: bool) -> Result<Self, Errno> {
        let handled = Attributes::all(version, tcp);
        // SAFETY: `handled` is what the kernel expects, of the size that is said.
        let made = check(unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const handled,
                Attributes::size(version),
                0u32,
            )
        })?;
        let made = i32::try_from(made).map_err(|_| Errno::BADF)?;
        // SAFETY: the kernel has just opened it for us.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(made) }, handled })
    }

    /// Allows `access` to `place` and, if it is a directory, to everything below it.
    pub fn allow(&self, place: impl AsFd, is_dir: bool, access: Access) -> Result<(), Errno> {
        const PATH_BENEATH: u32 = 1;
        let of_kind = if is_dir { self.handled.files } else { self.handled.files & OF_FILES };
        let rule = PathBeneath { allowed: rights(access) & of_kind, parent: place.as_fd().as_raw_fd() };
        // SAFETY: `rule` is what the kernel expects for a rule of this kind.
        check(unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                PATH_BENEATH,
                &raw const rule,
                0u32,
            )
        })
        .map(drop)
    }

    /// Applies the restrictions to this process, irrevocably. It must have no new privileges.
    pub fn apply(&self) -> Result<(), Errno> {
        // SAFETY: this call takes a descriptor and a number.
        check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), 0u32) }).map(drop)
    }
}

fn rights(access: Access) -> u64 {
    match access {
        Access::Read => EXECUTE | READ_FILE | READ_DIR,
        Access::Use => EXECUTE | READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV,
        Access::Change => !(MAKE_CHAR | MAKE_BLOCK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_asked_only_for_what_it_knows() {
        let files = |version| Attributes::all(version, true).files;
        assert_eq!([1, 2, 3, 4, 5, 9].map(files), [0x1fff, 0x3fff, 0x7fff, 0x7fff, 0xffff, 0xffff]);
        let rest = |version| (Attributes::all(version, true).network, Attributes::all(version, true).scoped);
        assert_eq!([3, 4, 5, 6].map(rest), [(0, 0), (3, 0), (3, 0), (3, 3)]);
        assert_eq!(Attributes::all(6, false).network, 0);
    }
}
