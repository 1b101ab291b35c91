//! The directory that receives a tree. Guarantees that no entry is created outside it.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    rc::Rc,
};

use agentiso_proto::TreeEntry;
use rustix::{
    fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Uid},
    io::Errno,
};

use crate::{
    error::{During, Outcome, invalid, refused, shown},
    paths::{file_type, make_directories, open_directory},
    remove::{empty, remove_tree},
    tree_metadata,
};

const NEW_DIRECTORY: u32 = 0o700;
const MISSING_PARENT: u32 = 0o755;

pub(crate) struct Target {
    root: OwnedFd,
    owners: bool,
    /// Directories on the path to the current entry. Their modes and times are set when they are left: a mode may
    /// forbid writing, and every new entry changes the time.
    open: Vec<OpenDirectory>,
}

struct OpenDirectory {
    fd: Rc<OwnedFd>,
    entry: TreeEntry,
}

/// The parent directory and name of an entry.
pub(crate) struct Place {
    pub(crate) parent: Rc<OwnedFd>,
    pub(crate) name: Vec<u8>,
}

impl Target {
    /// Opens or creates the directory.
    pub(crate) fn open(path: &[u8], owners: bool) -> Outcome<Self> {
        make_directories(path)?;
        Ok(Self { root: open_directory(path)?, owners, open: Vec::new() })
    }

    /// Finds the place of the entry with this path and creates missing parents.
    ///
    /// Symbolic links on the path, from this tree or older, are resolved as if the target were `/`, so none leads out
    /// of it. Image layers define links in the same way.
    pub(crate) fn place(&mut self, path: &[u8]) -> Outcome<Place> {
        self.leave_all_but_parents_of(path)?;
        let at = path.iter().rposition(|&byte| byte == b'/');
        let (directory, name) = at.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        if name.is_empty() {
            return Err(invalid("only a directory can be the root of the tree"));
        }
        let parent = match self.open.last() {
            Some(open) if open.entry.path == directory => Rc::clone(&open.fd),
            _ => Rc::new(self.resolve_or_make(directory)?),
        };
        Ok(Place { parent, name: name.to_vec() })
    }

    /// Creates the directory if it is missing, and keeps it open while entries below it arrive.
    pub(crate) fn enter(&mut self, entry: TreeEntry, check: &mut dyn FnMut() -> Outcome<()>) -> Outcome<()> {
        let fd = if entry.path.is_empty() {
            self.leave_all_but_parents_of(b"")?;
            rustix::io::fcntl_dupfd_cloexec(&self.root, 3).during(|| "duplicating a directory descriptor")?
        } else {
            let place = self.place(&entry.path)?;
            place.make_directory(&entry.path, check)?
        };
        self.open.push(OpenDirectory { fd: Rc::new(fd), entry });
        Ok(())
    }

    /// Removes everything below a directory of the tree, if it exists.
    pub(crate) fn empty(&mut self, path: &[u8], check: &mut dyn FnMut() -> Outcome<()>) -> Outcome<()> {
        self.leave_all_but_parents_of(path)?;
        match self.resolve(path) {
            Ok(fd) => empty(fd.as_fd(), check),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(errno) => Err(refused(format!("opening the directory {}", shown(path)), errno)),
        }
    }

    /// The place of an earlier entry, as the target of a hard link.
    pub(crate) fn earlier(&self, path: &[u8]) -> Outcome<Place> {
        let at = path.iter().rposition(|&byte| byte == b'/');
        let (directory, name) = at.map_or((&b""[..], path), |at| (&path[..at], &path[at + 1..]));
        let parent =
            self.resolve(directory).during(|| format!("opening the directory {}", shown(directory)))?;
        Ok(Place { parent: Rc::new(parent), name: name.to_vec() })
    }

    /// Sets the remaining directory metadata. Called when the tree is complete.
    pub(crate) fn finish(mut self) -> Outcome<()> {
        while let Some(directory) = self.open.pop() {
            tree_metadata::apply(directory.fd.as_fd(), &directory.entry, self.owners)?;
        }
        Ok(())
    }

    fn leave_all_but_parents_of(&mut self, path: &[u8]) -> Outcome<()> {
        while let Some(directory) = self.open.pop_if(|open| !is_below(path, &open.entry.path)) {
            tree_metadata::apply(directory.fd.as_fd(), &directory.entry, self.owners)?;
        }
        Ok(())
    }

    fn resolve(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), within) {
                // Something was renamed during the lookup, so the kernel asks for a retry.
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
    }

    fn resolve_or_make(&self, path: &[u8]) -> Outcome<OwnedFd> {
        match self.resolve(path) {
            Err(Errno::NOENT) => {}
            result => return result.during(|| format!("opening the directory {}", shown(path))),
        }
        let mut parent = self.resolve(b"").during(|| "opening the target")?;
        let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(at, _)| at);
        let mut start = 0;
        for end in ends.chain([path.len()]) {
            match rustix::fs::mkdirat(&parent, &path[start..end], Mode::from_raw_mode(MISSING_PARENT)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(refused(format!("creating the directory {}", shown(&path[..end])), errno));
                }
            }
            parent = self
                .resolve(&path[..end])
                .during(|| format!("opening the directory {}", shown(&path[..end])))?;
            start = end + 1;
        }
        Ok(parent)
    }
}

impl Place {
    /// Opens or creates the directory. Removes any other entry of that name.
    fn make_directory(&self, path: &[u8], check: &mut dyn FnMut() -> Outcome<()>) -> Outcome<OwnedFd> {
        let making = || format!("creating the directory {}", shown(path));
        let name = self.name.as_slice();
        let mut made = rustix::fs::mkdirat(&self.parent, name, Mode::from_raw_mode(NEW_DIRECTORY));
        if made == Err(Errno::EXIST) && !self.is_directory()? {
            remove_tree(self.parent.as_fd(), name, check)?;
            made = rustix::fs::mkdirat(&self.parent, name, Mode::from_raw_mode(NEW_DIRECTORY));
        }
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(refused(making(), errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.parent, name, flags, Mode::empty()).during(making)
    }

    /// Creates a link or node. Replaces any entry of that name.
    pub(crate) fn make(
        &self,
        path: &[u8],
        check: &mut dyn FnMut() -> Outcome<()>,
        make: impl Fn(BorrowedFd<'_>, &[u8]) -> rustix::io::Result<()>,
    ) -> Outcome<()> {
        let mut made = make(self.parent.as_fd(), &self.name);
        if made == Err(Errno::EXIST) {
            self.clear(check)?;
            made = make(self.parent.as_fd(), &self.name);
        }
        made.during(|| format!("making {}", shown(path)))
    }

    /// Removes the entry of this name, if any.
    pub(crate) fn clear(&self, check: &mut dyn FnMut() -> Outcome<()>) -> Outcome<()> {
        remove_tree(self.parent.as_fd(), &self.name, check)
    }

    /// The owner of the regular file of this name, if there is one.
    pub(crate) fn owner_of_file(&self) -> Outcome<Option<(Uid, Gid)>> {
        match rustix::fs::statat(&self.parent, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::RegularFile => {
                Ok(Some((Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid))))
            }
            Ok(_) | Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(refused(format!("examining {}", shown(&self.name)), errno)),
        }
    }

    /// Whether the name is a directory, not a link to one.
    pub(crate) fn is_directory(&self) -> Outcome<bool> {
        match rustix::fs::statat(&self.parent, self.name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(file_type(&stat) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(refused(format!("examining {}", shown(&self.name)), errno)),
        }
    }
}

/// Whether a path is strictly below a directory of the tree. Every other path is below the root.
fn is_below(path: &[u8], directory: &[u8]) -> bool {
    if directory.is_empty() {
        return !path.is_empty();
    }
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::is_below;

    #[test]
    fn below_compares_whole_components() {
        assert!(is_below(b"a/b", b"a") && is_below(b"a", b""));
        for (path, directory) in [(&b"a"[..], &b"a"[..]), (b"ab", b"a"), (b"b/a", b"a"), (b"", b"")] {
            assert!(!is_below(path, directory));
        }
    }
}
