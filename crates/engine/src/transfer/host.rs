//! Places on the host.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use super::trouble;

/// A name in an open directory: renaming or linking path components no longer affects it.
pub(super) struct Place {
    /// As its caller wrote it, for messages.
    pub path: PathBuf,
    directory: OwnedFd,
    name: OsString,
    /// Links are only followed as far as they stay beneath this.
    beneath: bool,
}

impl Place {
    /// Finds a place, within a directory if one is given.
    pub fn of(path: &Path, within: Option<&Path>) -> Result<Self, Failure> {
        Self::resolved(path, within, ResolveFlags::empty())
    }

    /// Finds a place within a directory, following no link.
    pub fn without_links(path: &Path, within: &Path) -> Result<Self, Failure> {
        Self::resolved(path, Some(within), ResolveFlags::NO_SYMLINKS)
    }

    fn resolved(path: &Path, within: Option<&Path>, how: ResolveFlags) -> Result<Self, Failure> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Failure::new(Code::InvalidArgument, format!("{} is not a file", path.display())));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = match within {
            None => openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS),
            Some(top) => {
                let outside = || {
                    let message = format!("{} is not in the transfer directory", path.display());
                    Failure::new(Code::PathNotAllowed, message)
                        .with_remedy(format!("use a path below {}", top.display()))
                };
                let inside = parent.strip_prefix(top).map_err(|_| outside())?;
                let root = rustix::fs::open(top, flags, Mode::empty())
                    .map_err(|errno| trouble(top, &errno.into()))?;
                let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | how;
                match openat2(&root, inside, flags, Mode::empty(), resolve) {
                    Err(Errno::XDEV | Errno::LOOP) => return Err(outside()),
                    opened => opened,
                }
            }
        };
        let directory = directory.map_err(|errno| trouble(parent, &errno.into()))?;
        Ok(Self { path: path.to_owned(), directory, name: name.to_owned(), beneath: within.is_some() })
    }

    /// Whether something has the name.
    pub fn exists(&self) -> bool {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens the file or directory. A symbolic link at the end is followed for the operator only.
    pub fn open(&self) -> Result<File, Failure> {
        let nofollow = if self.beneath { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | nofollow;
        let opened = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| match errno {
            Errno::LOOP => {
                Failure::new(Code::PathNotAllowed, format!("{} is a symbolic link", self.path.display()))
            }
            other => trouble(&self.path, &other.into()),
        })?);
        let kind = file.metadata().map_err(|error| trouble(&self.path, &error))?.file_type();
        if kind.is_file() || kind.is_dir() {
            return Ok(file);
        }
        Err(Failure::new(
            Code::InvalidArgument,
            format!("{} is neither file nor directory", self.path.display()),
        ))
    }

    /// A new file beside the place, which takes the place when it is complete. Only its owner may read it.
    pub fn new_file(&self) -> Result<Unfinished, Failure> {
        let name = self.unfinished_name();
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.directory, &name, flags, Mode::from_raw_mode(0o600));
        let file = opened.map_err(|errno| trouble(&self.path, &errno.into()))?;
        Ok(Unfinished { directory: self.again()?, name, fd: Some(file), is_directory: false })
    }

    /// A new directory beside the place, which takes the place when it is complete.
    pub fn new_directory(&self) -> Result<Unfinished, Failure> {
        let name = self.unfinished_name();
        let made = || -> rustix::io::Result<OwnedFd> {
            rustix::fs::mkdirat(&self.directory, &name, Mode::from_raw_mode(0o700))?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&self.directory, &name, flags, Mode::empty())
        };
        let fd = made().map_err(|errno| trouble(&self.path, &errno.into()))?;
        Ok(Unfinished { directory: self.again()?, name, fd: Some(fd), is_directory: true })
    }

    /// Refuses a name that is taken, except that the operator may merge a directory into an existing one. Returns whether
    /// there is one.
    pub fn require_free_or_directory(&self) -> Result<bool, Failure> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            Ok(stat) if !self.beneath && FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Ok(true)
            }
            Ok(_) => Err(Failure::new(Code::FileExists, format!("{} is there already", self.path.display()))
                .with_remedy("choose another path, or remove it first")),
            Err(errno) => Err(trouble(&self.path, &errno.into())),
        }
    }

    /// Refuses to put a file where a directory is.
    pub fn require_no_directory(&self) -> Result<(), Failure> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(Failure::new(Code::FileExists, format!("{} is a directory", self.path.display()))
                    .with_remedy("give the file's name too"))
            }
            _ => Ok(()),
        }
    }

    /// Gives something complete its name.
    pub fn finish(&self, mut unfinished: Unfinished) -> Result<(), Failure> {
        let renamed = rustix::fs::renameat(&self.directory, &unfinished.name, &self.directory, &self.name);
        renamed.map_err(|errno| trouble(&self.path, &errno.into()))?;
        unfinished.fd = None;
        Ok(())
    }

    /// Moves the content of a complete directory into the existing one: directories are merged, files replaced.
    pub fn merge(&self, unfinished: Unfinished) -> Result<(), Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())
            .map_err(|errno| trouble(&self.path, &errno.into()))?;
        let source = unfinished.fd().map_err(|error| trouble(&self.path, &error))?;
        // What remains of the new directory is removed with it.
        merge(&source, &target, &self.path)
    }

    fn again(&self) -> Result<OwnedFd, Failure> {
        self.directory.try_clone().map_err(|error| trouble(&self.path, &error))
    }

    fn unfinished_name(&self) -> OsString {
        let mut name = OsString::from(".agentiso-");
        name.push(uuid::Uuid::new_v4().to_string());
        name
    }
}

/// Something that is being written. It goes away unless it is finished.
pub(super) struct Unfinished {
    directory: OwnedFd,
    name: OsString,
    fd: Option<OwnedFd>,
    is_directory: bool,
}

impl Unfinished {
    /// The file or directory itself.
    pub fn fd(&self) -> io::Result<OwnedFd> {
        self.fd.as_ref().ok_or(io::ErrorKind::NotFound)?.as_fd().try_clone_to_owned()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(fd) = self.fd.take() else { return };
        if self.is_directory {
            let _ = remove_all(&fd);
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::REMOVEDIR);
        } else {
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Moves everything from one directory into another, following no link.
fn merge(source: &OwnedFd, target: &OwnedFd, path: &Path) -> Result<(), Failure> {
    let failed = |path: &Path, errno: Errno| trouble(path, &errno.into());
    for entry in rustix::fs::Dir::read_from(source).map_err(|errno| failed(path, errno))? {
        let entry = entry.map_err(|errno| failed(path, errno))?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = path.join(OsStr::from_bytes(name.to_bytes()));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = |directory: &OwnedFd| rustix::fs::openat(directory, name, flags, Mode::empty());
        match (open(source), open(target)) {
            (Ok(new), Ok(old)) => merge(&new, &old, &path)?,
            _ => rustix::fs::renameat(source, name, target, name).map_err(|errno| match errno {
                Errno::ISDIR | Errno::NOTDIR => {
                    let message =
                        format!("{} is a directory on one side and none on the other", path.display());
                    Failure::new(Code::FileExists, message)
                        .with_remedy("remove it on this host, or copy elsewhere")
                }
                other => failed(&path, other),
            })?,
        }
    }
    Ok(())
}

/// Removes all in a directory, following nothing.
fn remove_all(directory: &OwnedFd) -> rustix::io::Result<()> {
    for entry in rustix::fs::Dir::read_from(directory)?.flatten() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(below) => {
                remove_all(&below)?;
                rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?;
            }
            Err(_) => rustix::fs::unlinkat(directory, name, AtFlags::empty())?,
        }
    }
    Ok(())
}

/// Opens a directory of a tree that is being written, by its path in it, following no link.
pub(super) fn below(top: &OwnedFd, path: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if path.is_empty() { OsStr::new(".") } else { path };
    openat2(top, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}
