//! Mounts a disk and changes root into it.

use std::{
    ffi::CStr,
    os::fd::{AsRawFd, OwnedFd},
};

use agentiso_proto::RootDisk;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount},
};

use crate::{
    boot_id::BootId,
    error::{During, Outcome, invalid, last_errno, refused},
    log::log,
    paths::{checked, file_type},
};

/// Where a disk is mounted before it becomes the root.
pub(crate) const NEW_ROOT: &str = "/newroot";
/// Mount options: without them every clone would repeat this background work right after its start.
const NO_BACKGROUND_WORK: &CStr = c"noinit_itable,no_prefetch_block_bitmaps";
const BLKFLSBUF: libc::Ioctl = 0x1261;

/// A kernel file system that every root needs.
struct Needed {
    /// Relative to the new root.
    target: &'static str,
    mode: u32,
    fstype: &'static str,
    flags: MountFlags,
    data: Option<&'static CStr>,
}

const NEEDED: &[Needed] = &[
    Needed { target: "proc", mode: 0o555, fstype: "proc", flags: QUIET, data: None },
    Needed { target: "sys", mode: 0o555, fstype: "sysfs", flags: QUIET, data: None },
    Needed { target: "dev", mode: 0o755, fstype: "devtmpfs", flags: MountFlags::NOSUID, data: None },
    Needed {
        target: "dev/pts",
        mode: 0o755,
        fstype: "devpts",
        flags: MountFlags::NOSUID.union(MountFlags::NOEXEC),
        data: Some(c"gid=5,mode=620,ptmxmode=666"),
    },
    Needed {
        target: "dev/shm",
        mode: 0o1777,
        fstype: "tmpfs",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: Some(c"mode=1777"),
    },
    Needed {
        target: "run",
        mode: 0o755,
        fstype: "tmpfs",
        flags: MountFlags::NOSUID.union(MountFlags::NODEV),
        data: Some(c"mode=755"),
    },
];

const TMP: Needed = Needed {
    target: "tmp",
    mode: 0o1777,
    fstype: "tmpfs",
    flags: MountFlags::NOSUID.union(MountFlags::NODEV),
    data: Some(c"mode=1777"),
};

const QUIET: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// Mounts a disk and, if requested, the kernel file systems, and changes root into it. On failure unmounts everything.
/// Returns the boot id of the entered root.
pub(crate) fn mount_disk(disk: &RootDisk) -> Outcome<Option<BootId>> {
    checked(disk.device.as_bytes())?;
    if disk.fstype.is_empty() || disk.fstype.contains('\0') {
        return Err(invalid("the file system type is empty"));
    }
    forget_cached_blocks(&disk.device)?;
    match rustix::fs::mkdir(NEW_ROOT, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(refused(format!("creating {NEW_ROOT}"), errno)),
    }
    let flags = if disk.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    let options = (disk.fstype == "ext4").then_some(NO_BACKGROUND_WORK);
    mount(disk.device.as_str(), NEW_ROOT, disk.fstype.as_str(), flags, options)
        .during(|| format!("mounting {} as {}", disk.device, disk.fstype))?;
    if !disk.enter {
        return Ok(None);
    }
    furnish(disk).and_then(|boot_id| switch().map(|()| boot_id)).inspect_err(|_| {
        if let Err(errno) = rustix::mount::unmount(NEW_ROOT, UnmountFlags::DETACH) {
            log(&format!("cannot unmount {NEW_ROOT}: {errno}"));
        }
    })
}

/// Drops cached blocks: the guest was saved with another disk, or none, behind this device.
fn forget_cached_blocks(device: &str) -> Outcome<()> {
    let fd = rustix::fs::open(device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("opening {device}"))?;
    // SAFETY: this ioctl takes no argument.
    if unsafe { libc::ioctl(fd.as_raw_fd(), BLKFLSBUF, 0) } == -1 {
        return Err(refused(format!("flushing the cache of {device}"), last_errno()));
    }
    Ok(())
}

fn furnish(disk: &RootDisk) -> Outcome<Option<BootId>> {
    let top = rustix::fs::open(NEW_ROOT, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during(|| "opening the new root")?;
    for needed in NEEDED {
        needed.mount(&top, disk.read_only)?;
    }
    if disk.read_only {
        TMP.mount(&top, true)?;
    } else {
        TMP.make_mount_point(&top, false)?;
    }
    link_standard_streams(&top);
    let groups = mount("cgroup2", format!("{NEW_ROOT}/sys/fs/cgroup"), "cgroup2", QUIET, None);
    if let Err(errno) = groups {
        log(&format!("cannot mount cgroups in the root: {errno}"));
    }
    let boot_id = BootId::cover(NEW_ROOT).inspect_err(|error| log(&error.message));
    Ok(boot_id.ok())
}

impl Needed {
    fn mount(&self, top: &OwnedFd, read_only: bool) -> Outcome<()> {
        self.make_mount_point(top, read_only)?;
        mount(self.fstype, format!("{NEW_ROOT}/{}", self.target), self.fstype, self.flags, self.data)
            .during(|| format!("mounting {} on /{}", self.fstype, self.target))
    }

    /// Creates the mount point. It must be a directory: a symbolic link could lead outside the new root.
    fn make_mount_point(&self, top: &OwnedFd, read_only: bool) -> Outcome<()> {
        let looking = || format!("examining the mount point /{}", self.target);
        match rustix::fs::statat(top, self.target, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if file_type(&stat) == FileType::Directory => Ok(()),
            Ok(_) => Err(invalid(format!("/{} of the disk is not a directory", self.target))),
            Err(Errno::NOENT) if !read_only || self.target.starts_with("dev/") => {
                rustix::fs::mkdirat(top, self.target, Mode::from_raw_mode(self.mode))
                    .during(|| format!("creating the mount point /{}", self.target))
            }
            Err(errno) => Err(refused(looking(), errno)),
        }
    }
}

/// Creates the links that devtmpfs lacks and shells rely on (`/dev/fd`, `/dev/stdin`, ...).
fn link_standard_streams(top: &OwnedFd) {
    let links = [
        ("/proc/self/fd", "dev/fd"),
        ("/proc/self/fd/0", "dev/stdin"),
        ("/proc/self/fd/1", "dev/stdout"),
        ("/proc/self/fd/2", "dev/stderr"),
    ];
    for (target, link) in links {
        match rustix::fs::symlinkat(target, top, link) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => log(&format!("cannot make /{link}: {errno}")),
        }
    }
}

/// Changes the root of all threads, which share it.
fn switch() -> Outcome<()> {
    rustix::process::chdir(NEW_ROOT).during(|| "entering the new root")?;
    let switched = rustix::mount::mount_move(".", "/")
        .during(|| "moving the new root")
        .and_then(|()| rustix::process::chroot(".").during(|| "changing the root"))
        .and_then(|()| rustix::process::chdir("/").during(|| "entering the new root"));
    if switched.is_err() {
        // Return to the old root, so that the disk can be unmounted.
        let _ = rustix::process::chdir("/");
    }
    switched
}
