//! qcow2 layers: works on every file system.

use std::fs;
use std::io;
use std::path::Path;

use agentiso_core::ports::{DiskError, DiskSource, Disks};
use imago::file::File;
use imago::qcow2::Qcow2;
use imago::storage::StorageCreateOptions;
use imago::{FormatCreateBuilder, Storage};

const QCOW2_MAGIC: [u8; 4] = *b"QFI\xfb";

/// Disks as qcow2 files, each backed by its source.
///
/// The files are made in process: a `qemu-img` per disk would cost more than everything else in a start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Qcow2Layers;

impl Disks for Qcow2Layers {
    fn create(&self, path: &Path, source: &DiskSource, size: u64) -> Result<(), DiskError> {
        let (backing, format) = backing(source, size)?;
        if path.symlink_metadata().is_ok() {
            return Err(DiskError::Exists(path.to_owned()));
        }
        write_overlay(path, backing, format, size).map_err(|cause| {
            // The error that matters is the first one; a half-written file that cannot be removed changes nothing.
            let _ = fs::remove_file(path);
            DiskError::Io { path: path.to_owned(), cause }
        })
    }

    fn name(&self) -> &'static str {
        "qcow2"
    }

    fn qemu_format(&self) -> &'static str {
        "qcow2"
    }
}

fn write_overlay(path: &Path, backing: String, format: &str, size: u64) -> io::Result<()> {
    let file = File::create_open(StorageCreateOptions::new().filename(path).overwrite(false))?;
    Qcow2::<File>::create_builder(file).size(size).backing(backing, format.to_owned()).create()
}

/// Checks the source and returns what the overlay's header says about it.
fn backing(source: &DiskSource, size: u64) -> Result<(String, &'static str), DiskError> {
    let bad = |reason: String| DiskError::BadSource { path: source.path().to_owned(), reason };
    let path = fs::canonicalize(source.path()).map_err(|error| bad(error.to_string()))?;
    let name = path.to_str().ok_or_else(|| bad("its path is not UTF-8".to_owned()))?.to_owned();
    let (source_size, format) = match source {
        DiskSource::Raw(_) => (fs::metadata(&path).map_err(|error| bad(error.to_string()))?.len(), "raw"),
        DiskSource::Layer(_) => (layer_size(&path).map_err(|error| bad(error.to_string()))?, "qcow2"),
    };
    if source_size > size {
        return Err(DiskError::TooSmall { size, source_size });
    }
    Ok((name, format))
}

/// The virtual size a qcow2 header states.
fn layer_size(path: &Path) -> io::Result<u64> {
    let mut header = [0; 32];
    io::Read::read_exact(&mut fs::File::open(path)?, &mut header)?;
    if header[..4] != QCOW2_MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a qcow2 file"));
    }
    let mut size = [0; 8];
    size.copy_from_slice(&header[24..32]);
    Ok(u64::from_be_bytes(size))
}
