//! Mounts that are made by descriptor, so that no path is looked up twice.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::process::check;

const ATTR_RDONLY: u64 = 0x1;
const ATTR_NOSUID: u64 = 0x2;
const ATTR_NODEV: u64 = 0x4;

/// `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Which operations a mount refuses. No mount honours set-user-ID bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Protection {
    pub readonly: bool,
    pub devices: bool,
}

impl Protection {
    /// Files can be changed.
    pub const WRITABLE: Self = Self { readonly: false, devices: false };
    /// Files cannot be changed.
    pub const READONLY: Self = Self { readonly: true, devices: false };
    /// Device nodes work.
    pub const DEVICES: Self = Self { readonly: false, devices: true };

    fn attributes(self) -> u64 {
        let mut set = ATTR_NOSUID;
        if self.readonly {
            set |= ATTR_RDONLY;
        }
        if !self.devices {
            set |= ATTR_NODEV;
        }
        set
    }
}

/// Opens a file or directory below `dir`. A symbolic link anywhere in `path` is an error (ELOOP).
pub(crate) fn open_without_links(dir: impl AsFd, path: impl AsRef<Path>) -> Result<OwnedFd, Errno> {
    openat2(dir, path.as_ref(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

/// Opens a file or directory by its absolute path. A symbolic link anywhere in it is an error (ELOOP).
pub(crate) fn open_host(path: &Path) -> Result<OwnedFd, Errno> {
    open_without_links(CWD, path)
}

/// A copy of the mount that `place` is in, from `place` down, with everything that is mounted below it. It is attached to
/// nothing yet.
pub(crate) fn copy_tree(place: impl AsFd, protection: Protection) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(place, "", flags)?;
    protect(&tree, protection, true)?;
    Ok(tree)
}

/// Changes a mount and, with `recursive`, all below it. Protections are only ever added.
pub(crate) fn protect(mount: impl AsFd, protection: Protection, recursive: bool) -> Result<(), Errno> {
    let attributes = Attributes { set: protection.attributes(), ..Attributes::default() };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the attributes are what the kernel expects, of the size that is said.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<Attributes>(),
        )
    })
    .map(drop)
}

/// A new file system, attached to nothing yet. Options without a value are flags.
pub(crate) fn new_file_system(
    kind: &str,
    options: &[(&str, Option<&str>)],
    protection: Protection,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        match value {
            Some(value) => fsconfig_set_string(&context, *key, *value)?,
            None => fsconfig_set_flag(&context, *key)?,
        }
    }
    fsconfig_create(&context)?;
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID;
    attributes.set(MountAttrFlags::MOUNT_ATTR_RDONLY, protection.readonly);
    attributes.set(MountAttrFlags::MOUNT_ATTR_NODEV, !protection.devices);
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Attaches a mount to a mount point.
pub(crate) fn attach(mount: impl AsFd, at: impl AsFd) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", at, "", flags)
}
