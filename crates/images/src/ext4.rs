//! Creating, checking and resizing ext4 file systems in files, without mounting them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

use crate::tools::{Tool, ToolError};

const PACKAGE: &str = "e2fsprogs";
/// The smallest file system: in a smaller one the journal leaves no space for files.
pub const MIN_BYTES: u64 = 32 << 20;
/// File systems are made in blocks of this size, so their length is a multiple of it.
pub const BLOCK: u64 = 4096;

/// Why a file system could not be created or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ext4Error {
    /// The file could not be read or written.
    #[error("could not use the file system image {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// An unsupported size.
    #[error(
        "a file system cannot be {bytes} bytes large: it takes at least {MIN_BYTES}, in steps of {BLOCK}"
    )]
    Size {
        /// The requested size.
        bytes: u64,
    },
    /// The contents need more space.
    #[error("the contents need {minimum} bytes and do not fit in {wanted}")]
    TooSmall {
        /// The smallest possible size.
        minimum: u64,
        /// What was asked for.
        wanted: u64,
    },
    /// The file is not an ext4 file system.
    #[error("{} holds no ext4 file system", path.display())]
    NotExt4 {
        /// The file.
        path: PathBuf,
    },
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl Explain for Ext4Error {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } => Code::of_io(source),
            Self::Size { .. } | Self::TooSmall { .. } => Code::InvalidArgument,
            Self::NotExt4 { .. } => Code::ImageRejected,
            Self::Tool(error) => error.code(),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::TooSmall { minimum, .. } => {
                Some(format!("ask for a disk of at least {} MiB", minimum.div_ceil(1 << 20)))
            }
            Self::Tool(error) => error.remedy(),
            Self::Io { source, .. } if Code::of_io(source) == Code::DiskFull => {
                Some("free some disk space and try again".to_owned())
            }
            _ => None,
        }
    }
}

/// Fields of the superblock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Superblock {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its UUID, in the usual text form.
    pub uuid: String,
}

/// Creates an empty, sparse file system of exactly `bytes`. On failure no file is left.
pub fn make_blank(path: &Path, bytes: u64) -> Result<(), Ext4Error> {
    check_size(bytes)?;
    let mke2fs = Tool::find("mke2fs", PACKAGE)?;
    let io = |source| Ext4Error::Io { path: path.to_owned(), source };
    let file = File::options().write(true).create_new(true).open(path).map_err(io)?;
    let guard = RemoveOnDrop(Some(path));
    file.set_len(bytes).map_err(io)?;
    let mut command = mke2fs.command();
    // Inode tables and journal are zeroes in a sparse file already, so nothing need be written; a small
    // journal keeps small images small; `resize_inode` (default) keeps growing a mounted one possible.
    command.args(["-t", "ext4", "-F", "-q", "-b", &BLOCK.to_string(), "-m", "0"]);
    command.args(["-J", &format!("size={}", journal_mib(bytes))]);
    command.args(["-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0"]);
    command.arg("--").arg(path);
    mke2fs.run(&mut command, |code| code == 0)?;
    guard.keep();
    Ok(())
}

/// Checks a file system without changing it.
pub fn check(path: &Path) -> Result<(), Ext4Error> {
    superblock(path)?;
    let e2fsck = Tool::find("e2fsck", PACKAGE)?;
    e2fsck.run(e2fsck.command().args(["-f", "-n"]).arg(path), |code| code == 0)?;
    Ok(())
}

/// Resizes the file system in `path`, and the file, to exactly `bytes`.
pub fn resize(path: &Path, bytes: u64) -> Result<(), Ext4Error> {
    check_size(bytes)?;
    let io = |source| Ext4Error::Io { path: path.to_owned(), source };
    let now = superblock(path)?;
    let e2fsck = Tool::find("e2fsck", PACKAGE)?;
    let resize2fs = Tool::find("resize2fs", PACKAGE)?;
    // 1 means "errors corrected", which a journal replay already counts as.
    e2fsck.run(e2fsck.command().args(["-f", "-y"]).arg(path), |code| code <= 1)?;
    if bytes < now.bytes {
        let minimum = minimum_bytes(&resize2fs, path)?;
        if bytes < minimum {
            return Err(Ext4Error::TooSmall { minimum, wanted: bytes });
        }
    } else {
        File::options().write(true).open(path).and_then(|file| file.set_len(bytes)).map_err(io)?;
    }
    let blocks = (bytes / BLOCK).to_string();
    resize2fs.run(resize2fs.command().arg(path).arg(blocks), |code| code == 0)?;
    File::options().write(true).open(path).and_then(|file| file.set_len(bytes)).map_err(io)?;
    Ok(())
}

/// Reads the superblock of the file system in `path`.
pub fn superblock(path: &Path) -> Result<Superblock, Ext4Error> {
    let io = |source| Ext4Error::Io { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(io)?;
    let mut bytes = Vec::with_capacity(1024);
    file.seek(SeekFrom::Start(1024)).map_err(io)?;
    file.take(1024).read_to_end(&mut bytes).map_err(io)?;
    parse_superblock(&bytes).ok_or_else(|| Ext4Error::NotExt4 { path: path.to_owned() })
}

/// Parses a superblock; `None` if it is not valid.
pub fn parse_superblock(bytes: &[u8]) -> Option<Superblock> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(0x38..0x3a)? != [0x53, 0xef] {
        return None;
    }
    let has_64bit = u32_at(0x60)? & 0x80 != 0;
    let high = if has_64bit { u64::from(u32_at(0x150)?) } else { 0 };
    let blocks = high << 32 | u64::from(u32_at(0x4)?);
    let block_size = 1024u64.checked_shl(u32_at(0x18)?).filter(|size| (1024..=65536).contains(size))?;
    let mut uuid = String::with_capacity(36);
    for (index, byte) in bytes.get(0x68..0x78)?.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            uuid.push('-');
        }
        uuid.push_str(&format!("{byte:02x}"));
    }
    Some(Superblock { bytes: blocks.checked_mul(block_size)?, uuid })
}

fn minimum_bytes(resize2fs: &Tool, path: &Path) -> Result<u64, Ext4Error> {
    let output = resize2fs.run(resize2fs.command().arg("-P").arg(path), |code| code == 0)?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.rsplit(':')
        .next()
        .and_then(|blocks| blocks.trim().parse::<u64>().ok())
        .map(|blocks| blocks.saturating_mul(BLOCK))
        .ok_or_else(|| resize2fs.failure("no minimum size in its answer".to_owned(), &text).into())
}

fn check_size(bytes: u64) -> Result<(), Ext4Error> {
    if bytes < MIN_BYTES || !bytes.is_multiple_of(BLOCK) {
        return Err(Ext4Error::Size { bytes });
    }
    Ok(())
}

fn journal_mib(bytes: u64) -> u64 {
    (bytes >> 20 >> 5).clamp(4, 64)
}

struct RemoveOnDrop<'a>(Option<&'a Path>);

impl RemoveOnDrop<'_> {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for RemoveOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_blank_file_system_is_sparse_clean_and_knows_its_size() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rootfs.raw");
        make_blank(&path, 4 << 30).unwrap();
        check(&path).unwrap();
        let told = superblock(&path).unwrap();
        assert_eq!(told.bytes, 4 << 30);
        assert_eq!(told.uuid.len(), 36);
        let used = path.metadata().unwrap().blocks() * 512;
        assert!(used < 80 << 20, "{used} bytes allocated");
    }

    #[test]
    fn the_smallest_allowed_file_system_can_be_made() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rootfs.raw");
        make_blank(&path, MIN_BYTES).unwrap();
        check(&path).unwrap();
    }

    #[test]
    fn odd_sizes_are_refused_and_leave_no_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rootfs.raw");
        for bytes in [0, BLOCK, MIN_BYTES + 1, u64::MAX] {
            assert_eq!(make_blank(&path, bytes).unwrap_err().code(), Code::InvalidArgument);
        }
        assert!(!path.exists());
    }

    #[test]
    fn an_existing_file_is_never_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rootfs.raw");
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(make_blank(&path, MIN_BYTES), Err(Ext4Error::Io { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_damaged_file_system_does_not_pass_the_check() {
        use std::os::unix::fs::FileExt;
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rootfs.raw");
        make_blank(&path, 64 << 20).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.write_all_at(&[0xa5; 8192], 4096).unwrap();
        assert_eq!(check(&path).unwrap_err().code(), Code::ToolFailed);
        file.write_all_at(&[0; 2048], 0).unwrap();
        assert_eq!(check(&path).unwrap_err().code(), Code::ImageRejected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_superblock_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..1100)) {
            let _ = parse_superblock(&bytes);
        }
    }
}
