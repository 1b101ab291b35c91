//! The sandbox's own `/proc`.

use std::os::fd::OwnedFd;

use rustix::fs::CWD;
use rustix::io::Errno;

use super::{Step, StepFailed};
use crate::kernel::mounts::{Protection, attach, copy_tree, new_file_system, open_without_links};

/// Files that tell about the whole kernel, or about keys of the user, which no namespace separates.
const HIDDEN: [&str; 14] = [
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/mtrr",
    "/proc/sched_debug",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/proc/vmcore",
];
/// Directories that tell about the whole kernel.
const EMPTIED: [&str; 3] = ["/proc/acpi", "/proc/scsi", "/proc/irq"];
/// Directories with settings of the whole kernel.
const READ_ONLY: [&str; 4] = ["/proc/sys", "/proc/bus", "/proc/fs", "/proc/asound"];
/// A device of every sandbox with a `/proc`.
const NULL: &str = "/dev/null";

/// A `/proc` of this pid namespace. `None` if the kernel refuses one, because parts of the host's own are covered.
pub(super) fn prepare() -> Result<Option<OwnedFd>, StepFailed> {
    match new_file_system("proc", &[], Protection::WRITABLE) {
        Ok(mount) => Ok(Some(mount)),
        Err(Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(error) => Err(error).step(|| "mount /proc".to_owned()),
    }
}

/// Covers what concerns the whole kernel. What does not exist needs no cover.
pub(super) fn mask() -> Result<(), StepFailed> {
    for path in READ_ONLY {
        cover(path, path).step(|| format!("make {path} read-only"))?;
    }
    for path in HIDDEN {
        cover(path, NULL).step(|| format!("hide {path}"))?;
    }
    for path in EMPTIED {
        empty_out(path).step(|| format!("hide {path}"))?;
    }
    Ok(())
}

/// Mounts an empty directory at `path`.
fn empty_out(path: &str) -> Result<(), Errno> {
    match open_without_links(CWD, path) {
        Err(Errno::NOENT) => Ok(()),
        at => attach(new_file_system("tmpfs", &[("size", Some("4k"))], Protection::READONLY)?, at?),
    }
}

/// Mounts a read-only copy of `with` at `path`.
fn cover(path: &str, with: &str) -> Result<(), Errno> {
    let at = match open_without_links(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        at => at?,
    };
    let cover = open_without_links(CWD, with)?;
    attach(copy_tree(cover, Protection { readonly: true, devices: true })?, at)
}
