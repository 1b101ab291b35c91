//! Opens paths below a directory without ever leaving it or following a symbolic link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use crate::path::TreePath;

/// How often a path is resolved again because something was renamed meanwhile.
const ATTEMPTS: usize = 16;

/// Opens a path below `root`. A component that is a symbolic link gives `ELOOP` or `ENOTDIR`.
pub(crate) fn open_beneath(root: impl AsFd, path: &TreePath, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match openat2(&root, path.as_host(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS | Errno::PERM) => return by_components(root.as_fd(), path, flags),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

/// The same for kernels and sandboxes without openat2.
fn by_components(root: BorrowedFd<'_>, path: &TreePath, flags: OFlags) -> Result<OwnedFd, Errno> {
    let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Some((_, last)) = path.split() else { return openat(root, ".", flags, Mode::empty()) };
    let mut at = openat(root, ".", directory, Mode::empty())?;
    let parents = path.depth() - 1;
    for name in path.components().take(parents) {
        at = openat(&at, name, directory, Mode::empty())?;
    }
    openat(&at, last, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    type Open = fn(BorrowedFd<'_>, &TreePath, OFlags) -> Result<OwnedFd, Errno>;

    #[test]
    fn both_ways_stay_beneath_and_follow_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/a/b")).unwrap();
        std::fs::create_dir(dir.path().join("outside")).unwrap();
        symlink("../outside", dir.path().join("root/link")).unwrap();
        symlink("a", dir.path().join("root/inside")).unwrap();
        let root = std::fs::File::open(dir.path().join("root")).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let ways: [Open; 2] = [
            |root, path, flags| open_beneath(root, path, flags),
            |root, path, flags| by_components(root, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC),
        ];
        for way in ways {
            let path = |text: &str| TreePath::parse(text).unwrap();
            assert!(way(root.as_fd(), &path("a/b"), flags).is_ok());
            assert!(way(root.as_fd(), &TreePath::root(), flags).is_ok());
            for refused in ["link", "inside", "inside/b"] {
                let error = way(root.as_fd(), &path(refused), flags).unwrap_err();
                assert!(matches!(error, Errno::LOOP | Errno::NOTDIR), "{refused}: {error}");
            }
            assert_eq!(way(root.as_fd(), &path("a/none"), flags).unwrap_err(), Errno::NOENT);
        }
    }
}
