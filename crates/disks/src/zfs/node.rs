//! The devices of volumes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::time::{Duration, Instant};

use agentiso_core::ports::{Dataset, DiskError, DiskView, Extent, Origin, ZpoolError};
use rustix::fs::SeekFrom;

use super::name::Volume;
use super::tool::zfs;
use crate::bounds;

/// How long udev may take to create the device of a volume.
const PATIENCE: Duration = Duration::from_secs(30);
/// The polling interval, short at first, because it usually takes a millisecond.
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LAST_LOOK: Duration = Duration::from_millis(20);
/// After how long it is checked that the volume exists.
const DOUBT: Duration = Duration::from_millis(200);

/// Waits until the device of a volume exists.
pub(super) fn wait(volume: &Volume) -> Result<(), DiskError> {
    let (node, began) = (volume.node(), Instant::now());
    let (mut pause, mut doubted) = (FIRST_LOOK, false);
    loop {
        match std::fs::metadata(&node) {
            Ok(found) if found.file_type().is_block_device() => return Ok(()),
            Ok(_) => {
                let reason = format!("{} is no device of a volume", node.display());
                return Err(DiskError::BadDisk { path: node, reason });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(DiskError::Io { action: "find the device", path: node, cause }),
        }
        if began.elapsed() > DOUBT && !std::mem::replace(&mut doubted, true) {
            zfs("find", volume.as_str()).run(&["list", "-H", "-o", "name", volume.as_str()])?;
        }
        if began.elapsed() > PATIENCE {
            return Err(ZpoolError::NoNode { node, seconds: PATIENCE.as_secs() }.into());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LAST_LOOK);
    }
}

/// Opens the device of a volume.
pub(super) fn open(dataset: &Dataset, volume: &Volume, options: &OpenOptions) -> Result<File, DiskError> {
    wait(volume)?;
    let node = volume.node();
    options.open(&node).map_err(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied => {
            ZpoolError::NodeClosed { node, dataset: dataset.as_str().to_owned() }.into()
        }
        _ => DiskError::Io { action: "open the disk", path: node, cause },
    })
}

/// Flushes a device, so that a snapshot contains all written data, and returns its size.
pub(super) fn write_back(device: &File, volume: &Volume) -> Result<u64, DiskError> {
    let done = device.sync_all().and_then(|()| size(device));
    done.map_err(|cause| DiskError::Io { action: "write back", path: volume.node(), cause })
}

/// The size of a device, which its metadata do not contain.
pub(super) fn size(file: &File) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, SeekFrom::End(0))?)
}

/// Gives a device to QEMU's user; without one, checks that this process can use it.
pub(super) fn admit(dataset: &Dataset, volume: &Volume, user: Option<(u32, u32)>) -> Result<(), DiskError> {
    wait(volume)?;
    let node = volume.node();
    let Some((uid, gid)) = user else {
        return open(dataset, volume, OpenOptions::new().read(true).write(true)).map(drop);
    };
    // udev may reset the group later, but not the owner.
    std::os::unix::fs::chown(&node, Some(uid), Some(gid)).map_err(|cause| DiskError::Io {
        action: "hand over the disk",
        path: node,
        cause,
    })
}

/// An open volume.
#[derive(Debug)]
pub(super) struct View {
    file: File,
    size: u64,
}

impl View {
    pub(super) fn of(file: File, path: &Path) -> Result<Self, DiskError> {
        let size = size(&file).map_err(|cause| DiskError::Io {
            action: "measure the disk",
            path: path.to_owned(),
            cause,
        })?;
        Ok(Self { file, size })
    }
}

impl DiskView for View {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        bounds::check(self.size, offset, buffer.len() as u64)?;
        self.file.read_exact_at(buffer, offset)
    }

    /// The location of a volume's data is not known.
    fn extent_at(&self, offset: u64) -> io::Result<Extent> {
        let rest = bounds::rest(self.size, offset)?;
        Ok(Extent { origin: Origin::Unknown, length: rest })
    }
}
