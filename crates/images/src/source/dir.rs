//! A directory of the host as a source.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{EntryKind, RootfsSink, Timestamp};
use agentiso_core::progress::Progress;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::intake::{Attributes, Intake};
use super::tar::Counted;
use super::{ImportLimits, RootfsSource, SourceError, Summary};
use crate::store::{ImageSource, SourceKind};

/// The most Linux allows for the names, and for each value, of a file's extended attributes.
const XATTR_MAX: usize = 64 << 10;

/// A directory of the host. Links in it are never followed; sockets are left out.
#[derive(Debug)]
pub struct DirectorySource {
    root: PathBuf,
    bytes: u64,
}

impl DirectorySource {
    /// Opens a directory and counts its files and bytes.
    pub fn open(root: &Path) -> Result<Self, SourceError> {
        let mut bytes = 0;
        walk(root, &mut |_, _, meta| {
            if meta.is_file() {
                bytes += meta.len();
            }
            Ok(())
        })?;
        Ok(Self { root: root.to_owned(), bytes })
    }
}

impl RootfsSource for DirectorySource {
    fn describe(&self) -> ImageSource {
        ImageSource { kind: SourceKind::Directory, reference: self.root.display().to_string() }
    }

    fn size_hint(&self) -> u64 {
        self.bytes
    }

    fn stream(
        &mut self,
        sink: &mut dyn RootfsSink,
        progress: &dyn Progress,
        limits: ImportLimits,
    ) -> Result<Summary, SourceError> {
        progress.step("reading the directory", Some(self.bytes));
        let mut intake = Intake::new(sink, limits, &self.root.display().to_string());
        let mut linked: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
        walk(&self.root, &mut |path, name, meta| {
            let failed = || SourceError::io("read", path.display());
            let attributes = Attributes {
                mode: meta.mode(),
                uid: u64::from(meta.uid()),
                gid: u64::from(meta.gid()),
                mtime: Timestamp {
                    seconds: meta.mtime(),
                    nanos: u32::try_from(meta.mtime_nsec()).unwrap_or(0),
                },
                xattrs: xattrs(path).map_err(failed())?,
            };
            let Some(mut kind) = kind(path, meta).map_err(failed())? else { return Ok(()) };
            if !meta.is_dir() && meta.nlink() > 1 {
                let inode = (meta.dev(), meta.ino());
                match linked.get(&inode) {
                    Some(first) => kind = EntryKind::Hardlink { target: first.clone() },
                    None => _ = linked.insert(inode, name.to_vec()),
                }
            }
            match kind {
                EntryKind::File { .. } => {
                    let inner = open_regular(path).map_err(failed())?;
                    intake.add(name, kind, attributes, &mut Counted { inner, progress })
                }
                _ => intake.add(name, kind, attributes, &mut io::empty()),
            }
        })?;
        let (entries, bytes) = intake.totals();
        progress.done(&format!("{entries} entries"));
        Ok(Summary { entries, bytes, digest: None, defaults: None })
    }
}

/// Called for each file with its path on the host, its path below the root, and its metadata.
type Visit<'a> = dyn FnMut(&Path, &[u8], &Metadata) -> Result<(), SourceError> + 'a;

/// Visits the root and all below it: parents first, names in order, links not followed.
fn walk(root: &Path, visit: &mut Visit<'_>) -> Result<(), SourceError> {
    let meta = fs::metadata(root).map_err(SourceError::io("read", root.display()))?;
    visit(root, b"", &meta)?;
    let mut waiting = vec![(root.to_owned(), Vec::new())];
    while let Some((directory, prefix)) = waiting.pop() {
        let failed = || SourceError::io("read", directory.display());
        let mut found = fs::read_dir(&directory)
            .and_then(|entries| {
                entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>()
            })
            .map_err(failed())?;
        found.sort();
        let mut below = Vec::new();
        for file_name in found {
            let path = directory.join(&file_name);
            let meta = fs::symlink_metadata(&path).map_err(SourceError::io("read", path.display()))?;
            let mut name: Vec<u8> = prefix.clone();
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend_from_slice(file_name.as_bytes());
            visit(&path, &name, &meta)?;
            if meta.is_dir() {
                below.push((path, name));
            }
        }
        waiting.extend(below.into_iter().rev());
    }
    Ok(())
}

fn kind(path: &Path, meta: &Metadata) -> io::Result<Option<EntryKind>> {
    let file_type = meta.file_type();
    let major = rustix::fs::major(meta.rdev());
    let minor = rustix::fs::minor(meta.rdev());
    Ok(Some(if file_type.is_dir() {
        EntryKind::Directory
    } else if file_type.is_file() {
        EntryKind::File { size: meta.len() }
    } else if file_type.is_symlink() {
        EntryKind::Symlink { target: fs::read_link(path)?.into_os_string().into_vec() }
    } else if file_type.is_char_device() {
        EntryKind::CharDevice { major, minor }
    } else if file_type.is_block_device() {
        EntryKind::BlockDevice { major, minor }
    } else if file_type.is_fifo() {
        EntryKind::Fifo
    } else {
        return Ok(None);
    }))
}

/// Opens a file that was a regular file, without following a link or blocking on a pipe that replaced it.
fn open_regular(path: &Path) -> io::Result<impl Read> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it changed while it was read"));
    }
    Ok(file)
}

fn xattrs(path: &Path) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; 1024];
    let length = loop {
        match rustix::fs::llistxattr(path, &mut names) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < XATTR_MAX => names.resize(XATTR_MAX, 0),
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        }
    };
    let mut xattrs = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; XATTR_MAX];
        match rustix::fs::lgetxattr(path, name, &mut value) {
            Ok(length) => {
                value.truncate(length);
                xattrs.push((name.to_vec(), value));
            }
            // It was removed, or permission is denied.
            Err(Errno::NODATA | Errno::ACCESS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(xattrs)
}
