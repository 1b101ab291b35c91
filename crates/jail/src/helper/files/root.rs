//! What is in the root directory besides mounts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, symlinkat};
use rustix::io::Errno;

use super::points::Points;
use super::{Step, StepFailed, etc, tree};
use crate::kernel::mounts::{Protection, attach};
use crate::spec::{Mount, Root, Spec};

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
        Root::Directory(path) => directory(spec, path),
        Root::Overlay(_) => Ok(Vec::new()),
    }
}

fn host(spec: &Spec) -> Result<Vec<Entry>, StepFailed> {
    let mut entries: Vec<Entry> = OWN.iter().chain(&MADE).map(|path| Entry::Directory(path.into())).collect();
    entries.extend(LINKS.map(|(at, to)| Entry::Link { at: at.into(), to: to.into() }));
    for path in PROGRAMS {
        show(Path::new(path), Path::new(path), &targets(spec), &mut entries)
            .step(|| format!("show {path}"))?;
    }
    entries.extend(etc::entries(spec)?);
    Ok(entries)
}

/// The entries of a root file system, those that every sandbox has for itself left out.
fn directory(spec: &Spec, path: &Path) -> Result<Vec<Entry>, StepFailed> {
    let doing = || format!("show {} as root", path.display());
    let mut entries: Vec<Entry> = OWN.iter().map(|path| Entry::Directory(path.into())).collect();
    for name in names(path).step(doing)? {
        let at = Path::new("/").join(&name);
        if !OWN.iter().any(|own| Path::new(own) == at) {
            show(&path.join(&name), &at, &targets(spec), &mut entries).step(doing)?;
        }
    }
    Ok(entries)
}

fn targets(spec: &Spec) -> Vec<&Path> {
    spec.mounts.iter().map(Mount::target).collect()
}

fn names(dir: &Path) -> Result<BTreeSet<OsString>, Errno> {
    let names = fs::read_dir(dir).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    names.map_err(errno)
}

/// Shows a file, directory or link of the host; what does not exist or is something else is left out. A directory that lacks
/// a mount point is made anew, and its entries are shown one by one, because nothing may be created in it.
fn show(source: &Path, at: &Path, targets: &[&Path], entries: &mut Vec<Entry>) -> Result<(), Errno> {
    let kind = match fs::symlink_metadata(source) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(errno)?.file_type(),
    };
    if kind.is_symlink() {
        let to = fs::read_link(source).map_err(errno)?;
        entries.push(Entry::Link { at: at.to_owned(), to });
    } else if kind.is_dir() && targets.iter().any(|target| lacks(source, at, target)) {
        entries.push(Entry::Directory(at.to_owned()));
        for name in names(source)? {
            show(&source.join(&name), &at.join(&name), targets, entries)?;
        }
    } else if kind.is_dir() || kind.is_file() {
        let (mount, is_dir) = tree(source, Protection::READONLY)?;
        entries.push(Entry::Tree { at: at.to_owned(), mount, is_dir });
    }
    Ok(())
}

/// Whether a mount point is below `at` and does not exist below `source`, which is shown there.
fn lacks(source: &Path, at: &Path, target: &Path) -> bool {
    let Ok(below) = target.strip_prefix(at) else { return false };
    let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    below != Path::new("") && fs::symlink_metadata(source.join(below)).is_err_and(is_missing)
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
