//! Choosing the back end for a directory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentiso_core::ports::{Dataset, DiskError, Disks};
use rustix::fs::{Mode, OFlags, ioctl_ficlone};
use rustix::io::Errno;

use crate::{Qcow2Layers, Reflinks, Zvols, fiemap};

/// The requested back end.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Wanted {
    /// The best that the file system supports.
    #[default]
    Auto,
    /// [`Qcow2Layers`].
    Qcow2,
    /// [`Reflinks`].
    Reflink,
    /// [`Zvols`] in a dataset, for disks below a directory.
    Zfs(Dataset, PathBuf),
}

/// The chosen back end.
#[derive(Clone)]
pub struct Choice {
    /// The back end.
    pub disks: Arc<dyn Disks>,
    /// Why it was chosen, for people.
    pub why: String,
}

/// Chooses a back end for disks in `dir`, which must exist. Disks can only be used with the back end that created them.
pub fn choose(dir: &Path, wanted: Wanted) -> Result<Choice, DiskError> {
    let asked = |disks: Arc<dyn Disks>| Choice { disks, why: "the configuration asks for it".to_owned() };
    match &wanted {
        Wanted::Qcow2 => return Ok(asked(Arc::new(Qcow2Layers))),
        Wanted::Zfs(dataset, root) => return Ok(asked(Arc::new(Zvols::open(dataset.clone(), root, dir)?))),
        Wanted::Auto | Wanted::Reflink => {}
    }
    let file_system = file_system_name(dir);
    let asked = if wanted == Wanted::Reflink { "the configuration asks for it, and " } else { "" };
    match probe(dir) {
        Ok(()) => Ok(Choice {
            disks: Arc::new(Reflinks),
            why: format!("{asked}the data directory is on {file_system}, which shares data between files"),
        }),
        Err(cause) if !says_unsupported(&cause) => {
            Err(DiskError::Io { action: "try out how disks can be made in", path: dir.to_owned(), cause })
        }
        Err(cause) if wanted == Wanted::Reflink => {
            Err(DiskError::NoReflinks { dir: dir.to_owned(), file_system, cause })
        }
        Err(_) => Ok(Choice {
            disks: Arc::new(Qcow2Layers),
            why: format!("the data directory is on {file_system}, which does not share data between files"),
        }),
    }
}

/// Tests reflinks with a small temporary file, and whether FIEMAP reports the extents of the copy, which is needed to
/// measure disk usage.
fn probe(dir: &Path) -> io::Result<()> {
    let nameless = || -> io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(File::from(rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)?))
    };
    let (original, copy) = (nameless()?, nameless()?);
    original.write_all_at(&[1; 4096], 0)?;
    ioctl_ficlone(&copy, &original)?;
    fiemap::settle(&copy)
}

/// Whether an error means that the file system does not support it, and not that it failed this time.
pub fn says_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::OPNOTSUPP, Errno::NOTTY, Errno::INVAL, Errno::NOSYS, Errno::ISDIR];
    Errno::from_io_error(error).is_some_and(|errno| unsupported.contains(&errno))
}

/// The name of the file system at `path`.
pub fn file_system_name(path: &Path) -> String {
    let magic = match rustix::fs::statfs(path) {
        Ok(found) => found.f_type as u64 & 0xffff_ffff,
        Err(_) => return "an unknown file system".to_owned(),
    };
    let name = match magic {
        0xef53 => "ext4",
        0x5846_5342 => "XFS",
        0x9123_683e => "btrfs",
        0xca45_1a4e => "bcachefs",
        0x2fc1_2fc1 => "ZFS",
        0xf2f5_2010 => "F2FS",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlayfs",
        0x6969 => "NFS",
        0x6573_5546 => "FUSE",
        _ => return format!("a file system of type {magic:#x}"),
    };
    name.to_owned()
}
