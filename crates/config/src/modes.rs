//! Permissions of an installation: only its user can access it.
//!
//! Directories have mode 0700 and files 0600. The exception: QEMU processes started by root run as other users, so
//! files that they open have the group that they share.
//!
//! ```text
//!                                              user    root
//! home, disks, machines, cache                 0700    0710 with QEMU's group: QEMU can traverse it to its own files
//! images, kernel, templates, bases, workspaces 0700    the same, and new entries inherit the group (setgid)
//! memory, maintenance, transfers, lost, run    0700    0700
//! ```
//!
//! `secure` creates these directories and corrects those of older versions, which everyone could read. The contents of
//! a directory with the right mode are not checked, so this normally costs one `stat` per directory. The contents are
//! corrected before the directory itself: if that is interrupted, the next call starts over.
//!
//! The umask is the second line of defence: `restrict` clears all bits of group and others, and keeps the umask that
//! the process was started with for files written for the user outside the installation.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags};

use crate::paths::Paths;

/// The umask this process was started with.
static INHERITED: OnceLock<u32> = OnceLock::new();

/// Maximum depth of directories in an installation. Only those created by an older version are traversed.
const DEEPEST: u32 = 64;

const SETGID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// How QEMU uses a directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Use {
    /// QEMU traverses it.
    Passage,
    /// QEMU traverses it, and new entries inherit QEMU's group.
    Inherited,
    /// QEMU does not use it.
    Private,
}

/// Sets the umask so that only this user can access the files that this process creates.
pub fn restrict() {
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    INHERITED.get_or_init(|| before.as_raw_mode());
}

/// The user's own umask, for files created for them outside the installation.
pub fn inherited_umask() -> u32 {
    *INHERITED.get().unwrap_or(&0o022)
}

/// Creates the directories of an installation and restricts them to its user and `group`, the group of QEMU processes
/// that run as another user.
pub fn secure(paths: &Paths, group: Option<u32>) -> Result<(), (PathBuf, io::Error)> {
    let on = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    let home = &paths.home;
    DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(on(home))?;
    secure_home(home, group).map_err(on(home))?;
    for (dir, used) in directories(paths) {
        // Create the missing ones with the right mode. The others are created when they are needed.
        if used != Use::Private {
            make(&dir).map_err(on(&dir))?;
        }
        secure_directory(&dir, used, group).map_err(on(&dir))?;
    }
    Ok(())
}

fn directories(paths: &Paths) -> Vec<(PathBuf, Use)> {
    let mut all: Vec<(PathBuf, Use)> =
        [paths.disks_dir(), paths.machines_dir(), paths.cache_dir()].map(|dir| (dir, Use::Passage)).to_vec();
    let inherited = [
        paths.images_dir(),
        paths.kernel_dir(),
        paths.templates_dir(),
        paths.bases_dir(),
        paths.workspaces_dir(),
    ];
    all.extend(inherited.map(|dir| (dir, Use::Inherited)));
    let private =
        [paths.memory_dir(), paths.maintenance_dir(), paths.lost_dir(), paths.home.join("transfers")];
    all.extend(private.map(|dir| (dir, Use::Private)));
    all
}

fn make(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

impl Use {
    fn mode(self, group: Option<u32>) -> u32 {
        match (self, group) {
            (Self::Private, _) | (_, None) => 0o700,
            (Self::Passage, Some(_)) => 0o710,
            (Self::Inherited, Some(_)) => 0o710 | SETGID,
        }
    }

    /// The permission bits that files in such a directory may have.
    fn file_bits(self, group: Option<u32>) -> u32 {
        if self == Self::Inherited && group.is_some() { 0o740 } else { 0o700 }
    }
}

/// Restricts the data directory and the files directly in it.
fn secure_home(home: &Path, group: Option<u32>) -> io::Result<()> {
    let meta = fs::metadata(home)?;
    // Do not change a directory that belongs to another user or is shared.
    if !is_ours(&meta) || meta.mode() & STICKY != 0 || is_right(&meta, Use::Passage, group) {
        return Ok(());
    }
    for entry in fs::read_dir(home)? {
        let path = entry?.path();
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_file() && is_ours(&meta) => keep_bits(&path, &meta, 0o700)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    set(home, &meta, Use::Passage, group)
}

/// Restricts one directory and, if its mode was wrong, everything in it.
fn secure_directory(dir: &Path, used: Use, group: Option<u32>) -> io::Result<()> {
    let meta = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !is_ours(&meta) || is_right(&meta, used, group) {
        return Ok(());
    }
    // Entries inherit nothing from a directory that is only traversed, so they need no group.
    let (inside, group_inside) = match used {
        Use::Passage => (Use::Private, None),
        other => (other, group),
    };
    let opened = open(dir, OFlags::DIRECTORY)?;
    if let Some(opened) = opened {
        secure_contents(&opened, inside, group_inside, DEEPEST)?;
    }
    set(dir, &meta, used, group)
}

fn secure_contents(dir: &OwnedFd, used: Use, group: Option<u32>, depth: u32) -> io::Result<()> {
    let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
    let place = by_descriptor(dir);
    for entry in fs::read_dir(&place)? {
        // Never through a link or by path: the directory may belong to QEMU's user, who could replace it.
        let Some(opened) = open(&entry?.path(), OFlags::NOFOLLOW)? else { continue };
        let path = by_descriptor(&opened);
        let meta = fs::metadata(&path)?;
        if meta.is_dir() {
            secure_contents(&opened, used, group, depth)?;
            if is_ours(&meta) {
                give_group(&opened, &meta, group)?;
                let mode = used.mode(group);
                keep_bits(&path, &meta, mode)?;
            } else {
                keep_bits(&path, &meta, 0o700)?;
            }
        } else if meta.is_file() {
            let ours = is_ours(&meta);
            if ours {
                give_group(&opened, &meta, group)?;
            }
            keep_bits(&path, &meta, if ours { used.file_bits(group) } else { 0o700 })?;
        }
    }
    Ok(())
}

fn is_ours(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

fn is_right(meta: &Metadata, used: Use, group: Option<u32>) -> bool {
    let group = if used == Use::Private { None } else { group };
    meta.mode() & 0o7777 == used.mode(group) && group.is_none_or(|group| meta.gid() == group)
}

fn set(dir: &Path, meta: &Metadata, used: Use, group: Option<u32>) -> io::Result<()> {
    if let Some(group) = group.filter(|&group| used != Use::Private && group != meta.gid()) {
        std::os::unix::fs::chown(dir, None, Some(group))?;
    }
    fs::set_permissions(dir, Permissions::from_mode(used.mode(group)))
}

fn give_group(opened: &OwnedFd, meta: &Metadata, group: Option<u32>) -> io::Result<()> {
    let Some(group) = group.filter(|&group| group != meta.gid()) else { return Ok(()) };
    Ok(rustix::fs::chownat(opened, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?)
}

/// Removes bits. Never adds any except setgid.
fn keep_bits(path: &Path, meta: &Metadata, bits: u32) -> io::Result<()> {
    let inherits = if meta.is_dir() { bits & SETGID } else { 0 };
    let mode = meta.mode() & 0o777 & bits | inherits;
    if mode == meta.mode() & 0o7777 {
        return Ok(());
    }
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Opens a path with O_PATH. Returns `None` if it is a link or gone. Closing it releases no locks.
fn open(path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(opened) => {
            let mode = rustix::fs::fstat(&opened)?.st_mode;
            Ok((!FileType::from_raw_mode(mode).is_symlink()).then_some(opened))
        }
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn by_descriptor(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

#[cfg(test)]
mod tests;
