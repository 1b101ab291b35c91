//! What is in the root directory besides mounts.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, symlinkat};
use rustix::io::Errno;

use super::points::Points;
use super::{Step, StepFailed, etc, tree};
use crate::kernel::mounts::{Protection, attach};
use crate::spec::{Root, Spec};

/// Directories with programs and libraries.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];
/// Directories that every sandbox has, and that do not come from the host or an image.
const OWN: [&str; 5] = ["/dev", "/proc", "/run", "/sys", "/tmp"];
/// More directories of a root that is made from the host.
const MADE: [&str; 2] = ["/home", "/var"];
const LINKS: [(&str, &str); 2] = [("/var/run", "/run"), ("/var/tmp", "/tmp")];

/// Something in the new root.
pub(super) enum Entry {
    Tree { at: PathBuf, mount: OwnedFd, is_dir: bool },
    Link { at: PathBuf, to: PathBuf },
    File { at: PathBuf, content: String },
    Directory(PathBuf),
}

/// Opens and reads what the root directory consists of.
pub(super) fn prepare(spec: &Spec) -> Result<Vec<Entry>, StepFailed> {
    match &spec.root {
        Root::Host => host(spec),
        Root::Directory(path) => directory(path),
        Root::Overlay(_) => Ok(Vec::new()),
    }
}

fn host(spec: &Spec) -> Result<Vec<Entry>, StepFailed> {
    let mut entries: Vec<Entry> = OWN.iter().chain(&MADE).map(|path| Entry::Directory(path.into())).collect();
    entries.extend(LINKS.map(|(at, to)| Entry::Link { at: at.into(), to: to.into() }));
    for path in PROGRAMS {
        entries.extend(as_it_is(Path::new(path), path.into()).step(|| format!("show {path}"))?);
    }
    entries.extend(etc::entries(spec)?);
    Ok(entries)
}

/// The entries of a root file system, those that every sandbox has for itself left out.
fn directory(path: &Path) -> Result<Vec<Entry>, StepFailed> {
    let doing = || format!("show {} as root", path.display());
    let names = fs::read_dir(path)
        .and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<BTreeSet<_>>>()
        })
        .map_err(errno)
        .step(doing)?;
    let mut entries: Vec<Entry> = OWN.iter().map(|path| Entry::Directory(path.into())).collect();
    for name in names {
        let at = Path::new("/").join(&name);
        if !OWN.iter().any(|own| Path::new(own) == at) {
            entries.extend(as_it_is(&path.join(&name), at).step(doing)?);
        }
    }
    Ok(entries)
}

/// A file, directory or link of the host. `None` if it does not exist or is something else.
fn as_it_is(source: &Path, at: PathBuf) -> Result<Option<Entry>, Errno> {
    let kind = match fs::symlink_metadata(source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(errno)?.file_type(),
    };
    if kind.is_symlink() {
        return Ok(Some(Entry::Link { at, to: fs::read_link(source).map_err(errno)? }));
    }
    if !kind.is_dir() && !kind.is_file() {
        return Ok(None);
    }
    let (mount, is_dir) = tree(source, Protection::READONLY)?;
    Ok(Some(Entry::Tree { at, mount, is_dir }))
}

impl Entry {
    /// Puts it into the new root.
    pub fn create(self, points: &Points) -> Result<(), StepFailed> {
        match self {
            Self::Tree { at, mount, is_dir } => {
                let point = if is_dir { points.directory(&at) } else { points.file(&at) };
                point.and_then(|point| attach(mount, point)).step(|| format!("show {}", at.display()))
            }
            Self::Link { at, to } => {
                let parent = at.parent().map_or(Ok(()), |parent| points.directory(parent).map(drop));
                parent.and_then(|()| symlinkat(&to, CWD, &at)).step(|| format!("make {}", at.display()))
            }
            Self::File { at, content } => {
                write(points, &at, &content).step(|| format!("write {}", at.display()))
            }
            Self::Directory(at) => points.directory(&at).map(drop).step(|| format!("make {}", at.display())),
        }
    }
}

fn write(points: &Points, at: &Path, content: &str) -> Result<(), Errno> {
    if let Some(parent) = at.parent() {
        points.directory(parent)?;
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(CWD, at, flags, Mode::from_raw_mode(0o644))?;
    rustix::io::write(&file, content.as_bytes()).map(drop)
}

/// The error number of a failure of the standard library.
pub(super) fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
