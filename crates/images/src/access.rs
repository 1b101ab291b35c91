//! Giving QEMU read access to kernels and images.
//!
//! Files of agentiso are accessible only to its user. If that is root, QEMU runs as another user and has to read kernels
//! and images: their directories have QEMU's group, which new entries inherit, and these functions add the permission. An
//! ordinary user's QEMU runs as the same user and needs no permission.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const READ: u32 = 0o040;
const ENTER: u32 = 0o010;
const SETGID: u32 = 0o2000;

/// Lets QEMU's group read a file.
pub fn share_file(path: &Path) -> io::Result<()> {
    add(path, READ)
}

/// Lets QEMU's group enter a directory, but not list it.
pub fn share_directory(path: &Path) -> io::Result<()> {
    add(path, ENTER)
}

fn add(path: &Path, bits: u32) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    inherit_group(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & bits == bits {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode | bits))
}

/// Gives an entry the group of its directory, which it lacks if it was moved there.
fn inherit_group(path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    let directory = fs::metadata(directory)?;
    if directory.mode() & SETGID != 0 && directory.gid() != fs::metadata(path)?.gid() {
        std::os::unix::fs::chown(path, None, Some(directory.gid()))?;
    }
    Ok(())
}
