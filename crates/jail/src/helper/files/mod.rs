//! The files of a sandbox.
//!
//! Everything that comes from the host is opened first, as detached mounts, while the host's root is still visible. Then a
//! new root takes its place, the host's root is detached, and the mounts are attached below the new root, to mount points
//! that are reached without following a symbolic link. So nothing in the sandbox, and nobody who writes to a directory that
//! it shows, can direct a mount elsewhere.

mod devices;
mod etc;
mod overlay;
mod points;
mod proc;
mod root;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RawMode};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::process::{fchdir, pivot_root};

use self::devices::Devices;
use self::points::Points;
use super::restrict::Allowed;
use super::step::{Step, StepFailed};
use crate::enforcement::{Enforcement, Measure, State};
use crate::kernel::landlock::Access;
use crate::kernel::mounts::{Protection, attach, copy_tree, new_file_system, open_host, protect};
use crate::spec::{Mount, Root, Spec, Tmpfs};

/// A directory that exists wherever this program runs, because the helper was started from there.
const STAGING: &str = "/proc";
/// Room for the directories, links and small files of the root itself.
const ROOT_SIZE: &str = "4m";

/// The files of a sandbox, seen from inside.
pub(super) struct View {
    /// What may be done where.
    pub rules: Vec<Allowed>,
    has_proc: bool,
}

/// A mount that waits for its mount point.
enum Prepared {
    Tree { mount: OwnedFd, is_dir: bool },
    Tmpfs(OwnedFd),
    Proc(Option<OwnedFd>),
    Dev(Devices),
}

/// Replaces the host's root by the sandbox's.
pub(super) fn enter(spec: &Spec, enforcement: &mut Enforcement) -> Result<View, StepFailed> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).first_step("keep its mounts to itself")?;
    let new_root = match &spec.root {
        Root::Overlay(overlay) => overlay::prepare(overlay, spec.volatile_overlays)?,
        Root::Host | Root::Directory(_) => empty("0755", ROOT_SIZE).first_step("mount an empty root")?,
    };
    let entries = root::prepare(spec)?;
    let prepared: Vec<(&Path, Prepared)> = spec
        .mounts
        .iter()
        .map(|mount| prepare(mount, spec.volatile_overlays).map(|done| (mount.target(), done)))
        .collect::<Result<_, _>>()?;
    leave_host(&new_root)?;
    let mut points = Points::default();
    if !matches!(&spec.root, Root::Overlay(overlay) if overlay.readonly) {
        points.may_create_in(&new_root).step(|| "look at its root".to_owned())?;
    }
    for entry in entries {
        entry.create(&points)?;
    }
    let mut has_proc = false;
    for (target, mount) in prepared {
        has_proc |= install(target, mount, &mut points, enforcement)?;
    }
    if !matches!(spec.root, Root::Overlay(_)) {
        protect(&new_root, Protection::READONLY, false).step(|| "make its root read-only".to_owned())?;
    }
    fchdir(&new_root).step(|| "enter its root".to_owned())?;
    Ok(View { rules: rules(spec, has_proc), has_proc })
}

/// Hides what concerns the whole kernel. Limits that are written to `/proc` are set before.
pub(super) fn protect_proc(view: &View) -> Result<(), StepFailed> {
    if view.has_proc { proc::mask() } else { Ok(()) }
}

fn prepare(mount: &Mount, volatile_overlays: bool) -> Result<Prepared, StepFailed> {
    match mount {
        Mount::Bind(bind) => {
            let protection = if bind.readonly { Protection::READONLY } else { Protection::WRITABLE };
            let (mount, is_dir) = tree(&bind.source, protection)
                .step(|| format!("show {} at {}", bind.source.display(), bind.target.display()))?;
            Ok(Prepared::Tree { mount, is_dir })
        }
        Mount::Overlay(overlay) => {
            Ok(Prepared::Tree { mount: overlay::prepare(overlay, volatile_overlays)?, is_dir: true })
        }
        Mount::Tmpfs(Tmpfs { target, size, mode }) => empty(&format!("{mode:o}"), &size.to_string())
            .map(Prepared::Tmpfs)
            .step(|| format!("mount an empty file system at {}", target.display())),
        Mount::Proc => proc::prepare().map(Prepared::Proc),
        Mount::Dev => Devices::prepare().map(Prepared::Dev),
    }
}

/// Attaches a mount; true if it is a working `/proc`.
fn install(
    target: &Path,
    mount: Prepared,
    points: &mut Points,
    enforcement: &mut Enforcement,
) -> Result<bool, StepFailed> {
    let doing = || format!("mount {}", target.display());
    match mount {
        Prepared::Tree { mount, is_dir } => {
            let at = if is_dir { points.directory(target) } else { points.file(target) };
            at.and_then(|at| attach(mount, at)).step(doing)?;
        }
        Prepared::Tmpfs(mount) => {
            points.directory(target).and_then(|at| attach(&mount, at)).step(doing)?;
            points.may_create_in(&mount).step(doing)?;
        }
        Prepared::Dev(devices) => devices.install(target, points)?,
        Prepared::Proc(Some(mount)) => {
            points.directory(target).and_then(|at| attach(mount, at)).step(doing)?;
            enforcement.record(Measure::Proc, State::Enforced, "of the pid namespace, masked");
            return Ok(true);
        }
        Prepared::Proc(None) => {
            points.directory(target).step(doing)?;
            let detail =
                "/proc is empty: the host's own is covered in part, so the kernel does not allow a new one";
            enforcement.record(Measure::Proc, State::Unavailable, detail);
        }
    }
    Ok(false)
}

/// A file or directory of the host as a detached mount, and whether it is a directory.
fn tree(source: &Path, protection: Protection) -> Result<(OwnedFd, bool), Errno> {
    let place = open_host(source)?;
    let is_dir = is_directory(rustix::fs::fstat(&place)?.st_mode);
    Ok((copy_tree(&place, protection)?, is_dir))
}

fn is_directory(mode: RawMode) -> bool {
    rustix::fs::FileType::from_raw_mode(mode) == rustix::fs::FileType::Directory
}

/// An empty file system in memory.
fn empty(mode: &str, size: &str) -> Result<OwnedFd, Errno> {
    new_file_system("tmpfs", &[("mode", Some(mode)), ("size", Some(size))], Protection::WRITABLE)
}

/// Makes `new_root` the root directory. The host's root becomes unreachable.
fn leave_host(new_root: &OwnedFd) -> Result<(), StepFailed> {
    let staging = rustix::fs::openat(CWD, STAGING, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .step(|| format!("open {STAGING}"))?;
    attach(new_root, staging).step(|| "attach its root".to_owned())?;
    fchdir(new_root).step(|| "enter its root".to_owned())?;
    // The old root is then mounted on top of the new one, at the same place.
    pivot_root(".", ".").step(|| "change to its root".to_owned())?;
    unmount(".", UnmountFlags::DETACH).step(|| "leave the host's root".to_owned())?;
    rustix::process::chdir("/").step(|| "enter its root".to_owned())
}

fn rules(spec: &Spec, has_proc: bool) -> Vec<Allowed> {
    let root = match &spec.root {
        Root::Overlay(overlay) if !overlay.readonly => Access::Change,
        _ => Access::Read,
    };
    let mut rules = vec![(PathBuf::from("/"), root)];
    for mount in &spec.mounts {
        let target = mount.target().to_owned();
        match mount {
            Mount::Proc if has_proc => rules.push((target, Access::Use)),
            Mount::Proc => {}
            Mount::Dev => {
                rules.push((target.join("shm"), Access::Change));
                rules.push((target, Access::Use));
            }
            _ if mount.is_writable() => rules.push((target, Access::Change)),
            _ => {}
        }
    }
    rules
}
