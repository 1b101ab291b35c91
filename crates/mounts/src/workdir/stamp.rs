//! Tells whether anything was changed in a writable layer, from its root alone: a change further down puts the directory
//! that it is in into the root.

use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{fgetxattr, flistxattr};
use rustix::io::Errno;

use crate::error::MountError;

/// What the kernel shows of the root of a layer, apart from its entries.
pub(super) fn stamp(path: &Path) -> Result<String, MountError> {
    let directory = File::open(path).map_err(MountError::io("open", path))?;
    let metadata = directory.metadata().map_err(MountError::io("read", path))?;
    let mut stamp = format!(
        "{:o} {} {} {}.{:09}",
        metadata.mode(),
        metadata.uid(),
        metadata.gid(),
        metadata.mtime(),
        metadata.mtime_nsec()
    );
    let failed = MountError::os("read the attributes of", path);
    attributes(&directory, &mut stamp).map_err(failed)?;
    Ok(stamp)
}

fn attributes(directory: &File, stamp: &mut String) -> Result<(), Errno> {
    let mut names = vec![0; 64 << 10];
    let len = match flistxattr(directory, &mut names[..]) {
        Ok(len) => len,
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
        Err(error) => return Err(error),
    };
    let names = names.get(..len).unwrap_or_default();
    let mut names: Vec<&[u8]> = names.split(|byte| *byte == 0).filter(|name| is_visible(name)).collect();
    names.sort_unstable();
    for name in names {
        let mut value = vec![0; 64 << 10];
        let len = fgetxattr(directory, name, &mut value[..])?;
        // Writing to a string cannot fail.
        let _ = write!(stamp, " {name:?}={:?}", value.get(..len).unwrap_or_default());
    }
    Ok(())
}

fn is_visible(name: &[u8]) -> bool {
    let is_mark = name.starts_with(b"user.overlay.") || name.starts_with(b"trusted.overlay.");
    !name.is_empty() && !is_mark && !name.starts_with(b"security.selinux")
}

/// Whether a directory has no entries.
pub(super) fn is_empty(path: &Path) -> Result<bool, MountError> {
    let mut entries = fs::read_dir(path).map_err(MountError::io("read", path))?;
    Ok(entries.next().is_none())
}
