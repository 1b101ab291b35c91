//! Writing into disks as a machine would.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use imago::file::File;
use imago::qcow2::Qcow2;
use imago::{FormatAccess, FormatDriverBuilder, PermissiveImplicitOpenGate};

/// Writes into disks of some format.
pub trait Scribe {
    /// Writes bytes.
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]);

    /// Makes bytes read as zeros, storing nothing where the format can.
    fn zero(&self, path: &Path, offset: u64, length: u64);

    /// Waits until everything that was written is counted, where that takes its time.
    fn settle(&self) {}
}

/// Writes into qcow2 files, by an implementation that is not ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImagoScribe;

impl ImagoScribe {
    fn open(path: &Path) -> FormatAccess<File> {
        let disk = Qcow2::<File>::builder_path(path).write(true).open(PermissiveImplicitOpenGate::default());
        FormatAccess::new(disk.expect("a qcow2 file that opens"))
    }
}

impl Scribe for ImagoScribe {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let disk = Self::open(path);
        disk.write(bytes, offset).expect("a write");
        disk.flush().expect("a flush");
    }

    fn zero(&self, path: &Path, offset: u64, length: u64) {
        let mut disk = Self::open(path);
        disk.discard_to_zero(offset, length).expect("a discard");
        disk.flush().expect("a flush");
    }
}

/// Writes into raw files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawScribe;

impl Scribe for RawScribe {
    fn write(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(path).expect("a disk");
        file.write_all_at(bytes, offset).expect("a write");
    }

    fn zero(&self, path: &Path, offset: u64, length: u64) {
        let file = OpenOptions::new().write(true).open(path).expect("a disk");
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, flags, offset, length).expect("a hole");
    }
}
