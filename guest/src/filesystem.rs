//! Operations on the root file system as a whole: flush, freeze, thaw, grow.

use std::os::fd::{AsRawFd, OwnedFd};

use agentiso_proto::Response;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use crate::{
    agent::{Agent, Machine, Root},
    error::{During, Outcome, invalid, last_errno, refused, unsupported},
    log::log,
    paths::read_small,
    sync::locked,
};

const FIFREEZE: libc::Ioctl = 0xc004_5877;
const FITHAW: libc::Ioctl = 0xc004_5878;
const SECTOR: u64 = 512;

/// Writes dirty data to the disk.
pub(crate) fn flush(machine: &Machine) -> Outcome<()> {
    rustix::fs::syncfs(open_root(&locked(&machine.root))?).during(|| "flushing the root")
}

/// Flushes the root and blocks all writes to it.
pub(crate) fn freeze(machine: &Machine) -> Outcome<()> {
    let mut root = locked(&machine.root);
    let top = open_root(&root)?;
    if root.frozen {
        return Err(invalid("the root is frozen already"));
    }
    freezing_call(&top, FIFREEZE).during(|| "freezing the root")?;
    root.frozen = true;
    Ok(())
}

/// Handles a request to thaw the root.
pub(crate) fn thaw(agent: &Agent) -> Outcome<Response> {
    let mut root = locked(&agent.machine()?.root);
    if !root.frozen {
        return Err(invalid("the root is not frozen"));
    }
    thaw_root(&mut root)?;
    Ok(Response::Done)
}

/// Thaws the root if an earlier session left it frozen. Failures are only logged.
pub(crate) fn thaw_forgotten(machine: &Machine) {
    if let Err(error) = thaw_root(&mut locked(&machine.root)) {
        log(&error.message);
    }
}

/// Thaws the root if it is frozen.
pub(crate) fn thaw_root(root: &mut Root) -> Outcome<()> {
    if root.frozen {
        freezing_call(&open_root(root)?, FITHAW).during(|| "thawing the root")?;
        root.frozen = false;
    }
    Ok(())
}

/// Grows the root to the current size of its disk.
pub(crate) fn grow(agent: &Agent) -> Outcome<Response> {
    let root = locked(&agent.machine()?.root);
    let top = open_root(&root)?;
    if let Some(disk) = root.disk.as_ref().filter(|disk| disk.fstype != "ext4") {
        return Err(unsupported(format!("a root of type {} cannot be grown", disk.fstype)));
    }
    if root.frozen {
        return Err(invalid("the root is frozen; thaw it first"));
    }
    let statfs = rustix::fs::fstatfs(&top).during(|| "examining the root file system")?;
    let block = u64::try_from(statfs.f_bsize).ok().filter(|&size| size > 0);
    let block = block.ok_or_else(|| invalid("the root file system has no block size"))?;
    rustix::fs::ext4_ioc_resize_fs(&top, disk_bytes(&top)? / block)
        .during(|| "growing the root file system")?;
    Ok(Response::Done)
}

/// The size of the disk below the root, from sysfs: a device node could have been replaced by a process in the guest.
fn disk_bytes(top: &OwnedFd) -> Outcome<u64> {
    let device = rustix::fs::fstat(top).during(|| "examining the root")?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/dev/block/{major}:{minor}/size");
    let sectors = read_small(path.as_bytes(), 4096)?;
    let sectors = std::str::from_utf8(&sectors).ok().and_then(|text| text.trim().parse::<u64>().ok());
    sectors
        .and_then(|sectors| sectors.checked_mul(SECTOR))
        .ok_or_else(|| invalid(format!("{path} contains no size")))
}

fn open_root(root: &Root) -> Outcome<OwnedFd> {
    let path = root.mount_point().ok_or_else(|| invalid("no root was mounted"))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).during(|| "opening the root")
}

fn freezing_call(top: &OwnedFd, request: libc::Ioctl) -> rustix::io::Result<()> {
    // SAFETY: these ioctls ignore their argument.
    match unsafe { libc::ioctl(top.as_raw_fd(), request, 0) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// Rejects requests that would block until the caller itself thaws the root.
pub(crate) fn refuse_if_frozen(root: &Root) -> Outcome<()> {
    if root.frozen { Err(refused("changing the root while it is frozen", Errno::BUSY)) } else { Ok(()) }
}
