//! Reads files below the directory of notes.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;

use crate::error::NotesError;
use crate::limits::MAX_NOTE;
use crate::path::NotePath;

/// How often a path is resolved again because something was renamed meanwhile.
const ATTEMPTS: usize = 16;
/// How often a file is read again because it changed while it was read.
const READS: usize = 5;

/// What identifies the state of a file without reading it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) modified_ns: i64,
    pub(crate) changed_ns: i64,
    pub(crate) inode: u64,
    pub(crate) mode: u32,
}

impl Stat {
    pub(super) fn of(stat: &rustix::fs::Stat) -> Self {
        let ns = |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            size: stat.st_size.cast_unsigned(),
            modified_ns: ns(stat.st_mtime, stat.st_mtime_nsec as i64),
            changed_ns: ns(stat.st_ctime, stat.st_ctime_nsec as i64),
            inode: stat.st_ino,
            mode: stat.st_mode & 0o7777,
        }
    }
}

/// A file with its content.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) stat: Stat,
    pub(crate) bytes: Vec<u8>,
}

/// The directory of notes.
#[derive(Debug)]
pub(crate) struct Directory {
    root: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens the directory; creates it, with what is above it, if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, NotesError> {
        create_private(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(NotesError::os("open", path))?;
        Ok(Self { root, path: path.to_owned() })
    }

    /// Where a file is on the host, for messages.
    pub(crate) fn host(&self, path: &str) -> PathBuf {
        self.path.join(path)
    }

    /// Opens something below the directory. The last name may be a symbolic link only with `O_PATH`.
    pub(super) fn open_beneath(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if path.is_empty() { "." } else { path };
        for _ in 0..ATTEMPTS {
            match openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Kernels and sandboxes without openat2.
                Err(Errno::NOSYS | Errno::PERM) => return self.open_by_names(path, flags),
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    fn open_by_names(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut at = openat(&self.root, ".", directory, Mode::empty())?;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { directory } else { flags };
            at = openat(&at, name, flags, Mode::empty())?;
        }
        Ok(at)
    }

    /// Opens a folder; nothing if it does not exist.
    pub(crate) fn folder(&self, path: &str) -> Result<Option<OwnedFd>, NotesError> {
        match self.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => Ok(Some(folder)),
            // A file or a link where a folder should be is no folder.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
            Err(error) => Err(NotesError::os("open", self.host(path))(error)),
        }
    }

    /// Opens the folder of a file; creates those that are missing, for their owner only.
    pub(crate) fn create_folder(&self, path: &NotePath) -> Result<OwnedFd, NotesError> {
        for folder in path.folders() {
            let (parent, name) = folder.rsplit_once('/').unwrap_or(("", folder));
            if let Ok(parent) = self.open_beneath(parent, OFlags::PATH | OFlags::DIRECTORY) {
                match mkdirat(&parent, name, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(NotesError::os("create", self.host(folder))(error)),
                }
            }
        }
        match self.open_beneath(path.folder(), OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => Ok(folder),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let kind = "a file or a symbolic link where a folder should be";
                Err(NotesError::NotAFile { path: path.folder().to_owned(), kind })
            }
            Err(error) => Err(NotesError::os("open", self.host(path.folder()))(error)),
        }
    }

    /// Opens a regular file for reading; nothing if it does not exist.
    fn open_file(&self, path: &str) -> Result<Option<(File, Stat)>, NotesError> {
        let not_a_file = |kind| Err(NotesError::NotAFile { path: path.to_owned(), kind });
        // Without O_NONBLOCK a named pipe would block.
        let file = match self.open_beneath(path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) => return not_a_file("a symbolic link"),
            Err(Errno::NXIO) => return not_a_file("a socket or device"),
            Err(error) => return Err(NotesError::os("open", self.host(path))(error)),
        };
        let stat = fstat(&file).map_err(NotesError::os("read", self.host(path)))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Some((File::from(file), Stat::of(&stat)))),
            FileType::Directory => not_a_file("a folder"),
            _ => not_a_file("a pipe or device"),
        }
    }

    /// The state of a file; nothing if it does not exist.
    pub(crate) fn stat(&self, path: &str) -> Result<Option<Stat>, NotesError> {
        Ok(self.open_file(path)?.map(|(_, stat)| stat))
    }

    /// Reads a file; nothing if it does not exist.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Found>, NotesError> {
        for _ in 0..READS {
            let Some((file, stat)) = self.open_file(path)? else { return Ok(None) };
            if stat.size > MAX_NOTE as u64 {
                return Err(NotesError::TooLarge { path: path.to_owned(), size: stat.size, max: MAX_NOTE });
            }
            let bytes = read_all(&file, stat.size).map_err(NotesError::io("read", self.host(path)))?;
            let after = fstat(&file).map_err(NotesError::os("read", self.host(path)))?;
            let after = Stat::of(&after);
            let is_same = (after.size, after.modified_ns) == (stat.size, stat.modified_ns);
            if is_same && bytes.len() as u64 == stat.size {
                return Ok(Some(Found { stat, bytes }));
            }
        }
        Err(NotesError::Busy { path: path.to_owned() })
    }
}

fn read_all(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(MAX_NOTE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a directory, with what is above it, for its owner only.
pub(crate) fn create_private(path: &Path) -> Result<(), NotesError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(NotesError::io("create", path))
}
