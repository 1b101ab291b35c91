//! Removes files and directory trees.

use std::os::fd::{AsFd, BorrowedFd};

use agentiso_proto::Response;
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use crate::{
    error::{During, Outcome, invalid, refused, shown},
    paths::{checked, file_type, locate, status_of},
    stream::Stream,
};

/// Removes a path. Removes a symbolic link itself, never its target.
pub(crate) fn remove(stream: &Stream, path: &[u8], recursive: bool) -> Outcome<Response> {
    if checked(path)?.iter().all(|&byte| byte == b'/') {
        return Err(invalid("the root cannot be removed"));
    }
    let located = locate(path, false)?;
    let removing = || format!("removing {}", shown(path));
    let stat = status_of(&located)?.ok_or(Errno::NOENT).during(removing)?;
    match file_type(&stat) {
        FileType::Directory if recursive => {
            remove_tree(located.directory.as_fd(), &located.name, &mut || stream.check())?;
        }
        FileType::Directory => {
            rustix::fs::unlinkat(&located.directory, &*located.name, AtFlags::REMOVEDIR).during(removing)?;
        }
        _ => rustix::fs::unlinkat(&located.directory, &*located.name, AtFlags::empty()).during(removing)?,
    }
    Ok(Response::Done)
}

/// Removes an entry and everything below it. Entries that disappear meanwhile are not an error.
pub(crate) fn remove_tree(
    parent: BorrowedFd<'_>,
    name: &[u8],
    check: &mut dyn FnMut() -> Outcome<()>,
) -> Outcome<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR) => {}
        Err(errno) => return Err(refused(format!("removing {}", shown(name)), errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())
        .during(|| format!("opening the directory {}", shown(name)))?;
    empty(directory.as_fd(), check)?;
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(refused(format!("removing the directory {}", shown(name)), errno)),
    }
}

/// Removes all entries of a directory.
///
/// Descends by opening and ascends by `..`, so that a tree of any depth needs few descriptors and no recursion. A
/// directory is emptied before it is left. After ascending, the directory is compared with the expected one, since it
/// might have been moved.
pub(crate) fn empty(top: BorrowedFd<'_>, check: &mut dyn FnMut() -> Outcome<()>) -> Outcome<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |from: BorrowedFd<'_>, name: &[u8]| {
        rustix::fs::openat(from, name, flags, Mode::empty())
            .during(|| format!("opening the directory {}", shown(name)))
    };
    let identity = |fd: BorrowedFd<'_>| {
        rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino)).during(|| "examining a directory")
    };
    let mut current = open(top, b".")?;
    let mut above: Vec<(u64, u64, Vec<u8>)> = Vec::new();
    loop {
        check()?;
        match remove_plain_entries(current.as_fd())? {
            Some(directory) => {
                let (device, inode) = identity(current.as_fd())?;
                current = open(current.as_fd(), &directory)?;
                above.push((device, inode, directory));
            }
            None => {
                let Some((device, inode, name)) = above.pop() else { return Ok(()) };
                current = open(current.as_fd(), b"..")?;
                if identity(current.as_fd())? != (device, inode) {
                    return Err(invalid("a directory was moved while it was being removed"));
                }
                match rustix::fs::unlinkat(&current, &*name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => {
                        return Err(refused(format!("removing the directory {}", shown(&name)), errno));
                    }
                }
            }
        }
    }
}

/// Removes entries until it finds a non-empty directory, whose name it returns.
fn remove_plain_entries(directory: BorrowedFd<'_>) -> Outcome<Option<Vec<u8>>> {
    for entry in Dir::read_from(directory).during(|| "reading a directory")? {
        let entry = entry.during(|| "reading a directory")?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let plain = rustix::fs::unlinkat(directory, name, AtFlags::empty());
        let result = match plain {
            Err(Errno::ISDIR) => rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR),
            result => result,
        };
        match result {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY) => return Ok(Some(name.to_bytes().to_vec())),
            Err(errno) => return Err(refused(format!("removing {}", shown(name.to_bytes())), errno)),
        }
    }
    Ok(None)
}
