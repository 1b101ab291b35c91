//! Overlay file systems.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use super::{Step, StepFailed};
use crate::kernel::mounts::{Protection, copy_tree, new_file_system, open_host};
use crate::spec::Overlay;

/// The longest value that the kernel takes in one piece.
const MAX_VALUE: usize = 255;

/// What the kernel leaves in a work directory, outermost last, so that changes which were never flushed are noticed.
const UNFLUSHED: [(&str, AtFlags); 3] = [
    ("work/incompat/volatile/dirty", AtFlags::empty()),
    ("work/incompat/volatile", AtFlags::REMOVEDIR),
    ("work/incompat", AtFlags::REMOVEDIR),
];

/// Joins layers. They are named by descriptor, so that a path is looked up once and may contain any character.
pub(super) fn prepare(overlay: &Overlay, is_volatile: bool) -> Result<OwnedFd, StepFailed> {
    let open = |path: &Path| open_host(path).step(|| format!("open the layer {}", path.display()));
    let mut lowers = overlay.lowers.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let mut writable = None;
    match (&overlay.upper, &overlay.work) {
        (Some(upper), _) if overlay.readonly => lowers.insert(0, open(upper)?),
        (Some(upper), Some(work)) => writable = Some((open(upper)?, open(work)?)),
        _ => {}
    }
    if let ([only], None) = (lowers.as_slice(), &writable) {
        // The kernel joins two at least.
        return copy_tree(only, Protection::READONLY).step(|| format!("show {}", overlay.target.display()));
    }
    let names: Vec<String> = lowers.iter().map(name).collect();
    let joined = names.join(":");
    let writable_names = writable.as_ref().map(|(upper, work)| (name(upper), name(work)));
    let mut options = Vec::new();
    if joined.len() <= MAX_VALUE {
        options.push(("lowerdir", Some(joined.as_str())));
    } else {
        options.extend(names.iter().map(|name| ("lowerdir+", Some(name.as_str()))));
    }
    if let Some((_, work)) = &writable {
        forget_unflushed(work).step(|| format!("use the work directory of {}", overlay.target.display()))?;
        if is_volatile {
            options.push(("volatile", None));
        }
    }
    if let Some((upper, work)) = &writable_names {
        options.extend([("upperdir", Some(upper.as_str())), ("workdir", Some(work.as_str()))]);
    }
    // An ordinary user cannot write other attributes, and layers must mean the same to everyone.
    options.push(("userxattr", None));
    let protection = if overlay.readonly { Protection::READONLY } else { Protection::WRITABLE };
    new_file_system("overlay", &options, protection).step(|| {
        let many = if joined.len() > MAX_VALUE { " (so many layers need Linux 6.8)" } else { "" };
        format!("join {} layers for {}{many}", overlay.lowers.len(), overlay.target.display())
    })
}

/// The caller decides whether it trusts an upper directory after a power failure; the kernel would never mount it again.
fn forget_unflushed(work: &OwnedFd) -> Result<(), Errno> {
    for (mark, flags) in UNFLUSHED {
        match unlinkat(work, mark, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn name(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}
