//! Moves the files of one directory of the host over those of another. Symbolic links in the destination are replaced, and
//! never followed.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, renameat, statat};
use rustix::io::Errno;

use crate::VfsError;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Moves everything; directories that exist stay and get what is missing.
pub(super) fn replace_all(from: &Path, to: &Path) -> Result<(), VfsError> {
    let open = |path: &Path| File::open(path).map_err(VfsError::io("open", path));
    let stack = vec![(OwnedFd::from(open(from)?), OwnedFd::from(open(to)?))];
    run(stack).map_err(VfsError::os("write to", to))
}

fn run(mut stack: Vec<(OwnedFd, OwnedFd)>) -> Result<(), Errno> {
    while let Some((from, to)) = stack.pop() {
        for (name, kind) in names(&from)? {
            match renameat(&from, &name, &to, &name) {
                Err(Errno::NOTEMPTY | Errno::EXIST) if kind == FileType::Directory => {
                    let below = openat(&from, &name, DIRECTORY, Mode::empty())?;
                    stack.push((below, openat(&to, &name, DIRECTORY, Mode::empty())?));
                }
                // A directory does not replace a file, nor a file a directory, as for `cp -r`.
                other => other?,
            }
        }
    }
    Ok(())
}

fn names(directory: impl AsFd) -> Result<Vec<(CString, FileType)>, Errno> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        found.push((name.to_owned(), FileType::from_raw_mode(stat.st_mode)));
    }
    Ok(found)
}
