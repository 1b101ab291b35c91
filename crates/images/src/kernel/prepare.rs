//! Preparing a kernel: unpacked for PVH if possible, described, and made visible atomically.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bzimage::{unpack_vmlinux, version_of_bzimage};
use super::elf::pvh_entry;
use super::{Boot, BzImageError, Kernel, KernelError, KernelSource, depmod};
use crate::partial::{PartialDir, sync_parent};

/// A kernel file.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    pub(super) version: String,
}

impl Found {
    pub(super) fn read(path: &Path) -> Result<Self, KernelError> {
        let bytes = fs::read(path).map_err(KernelError::io("read the kernel", path))?;
        Self::of(path, bytes)
    }

    /// What `bytes`, read from `path`, are.
    pub(super) fn of(path: &Path, bytes: Vec<u8>) -> Result<Self, KernelError> {
        let version = if is_elf(&bytes) {
            version_of_elf(&bytes)
        } else {
            let version = version_of_bzimage(&bytes);
            Some(version.map_err(|source| KernelError::Image { path: path.to_owned(), source })?)
        };
        // It becomes the name of a directory, here and in the guest.
        let is_plain = |version: &String| {
            version.starts_with(|first: char| first.is_ascii_digit())
                && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+~-".contains(&byte))
        };
        let version =
            version.filter(is_plain).ok_or_else(|| KernelError::Version { path: path.to_owned() })?;
        Ok(Self { path: path.to_owned(), bytes, version })
    }
}

/// Puts the kernel into `partial`, describes it, and gives the directory its name.
pub(super) fn install(
    partial: &PartialDir,
    target: &Path,
    found: Found,
    modules: Option<PathBuf>,
    source: KernelSource,
) -> Result<Kernel, KernelError> {
    stage(partial, found, modules, source)?;
    settle(partial, target)
}

/// Writes the kernel and its description to `partial`, where it can be booted but is not found yet.
pub(super) fn stage(
    partial: &PartialDir,
    found: Found,
    modules: Option<PathBuf>,
    source: KernelSource,
) -> Result<Kernel, KernelError> {
    let directory = partial.path();
    let (name, boot, bytes) = bootable(&found)?;
    let image = directory.join(name);
    fs::write(&image, &bytes).map_err(KernelError::io("write", &image))?;
    if let Some(modules) = modules.as_deref().filter(|modules| modules.starts_with(directory)) {
        depmod::complete(modules).map_err(KernelError::io("read the modules in", modules))?;
    }
    let blake3 = blake3::hash(&bytes).to_hex().to_string();
    let kernel = Kernel { version: found.version, image, boot, modules, source, blake3 };
    kernel.write(directory)?;
    Ok(kernel)
}

/// Makes a staged kernel visible.
pub(super) fn settle(partial: &PartialDir, target: &Path) -> Result<Kernel, KernelError> {
    let directory = partial.path();
    match fs::rename(directory, target) {
        Ok(()) => {}
        // Another process was faster, or there is a damaged one.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) =>
        {
            if let Ok(kernel) = Kernel::read(target) {
                return Ok(kernel);
            }
            let replaced = fs::remove_dir_all(target).and_then(|()| fs::rename(directory, target));
            replaced.map_err(KernelError::io("replace", target))?;
        }
        Err(error) => return Err(KernelError::io("create", target)(error)),
    }
    sync_parent(target).map_err(KernelError::io("create", target))?;
    Kernel::read(target)
}

fn bootable(found: &Found) -> Result<(&'static str, Boot, Vec<u8>), KernelError> {
    let elf = if is_elf(&found.bytes) {
        found.bytes.clone()
    } else {
        match unpack_vmlinux(&found.bytes) {
            Ok(elf) => elf,
            // Its own loader knows how to unpack it.
            Err(BzImageError::UnknownCompression) => {
                return Ok(("vmlinuz", Boot::BzImage, found.bytes.clone()));
            }
            Err(source) => return Err(KernelError::Image { path: found.path.clone(), source }),
        }
    };
    let entry = pvh_entry(&elf).map_err(|source| KernelError::Elf { path: found.path.clone(), source })?;
    match entry {
        Some(_) => Ok(("vmlinux", Boot::Pvh, elf)),
        None if is_elf(&found.bytes) => {
            Err(KernelError::Image { path: found.path.clone(), source: BzImageError::NotBzImage })
        }
        None => Ok(("vmlinuz", Boot::BzImage, found.bytes.clone())),
    }
}

fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

fn version_of_elf(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let at = bytes.windows(BANNER.len()).position(|window| window == BANNER)? + BANNER.len();
    let word: Vec<u8> =
        bytes[at..].iter().take(128).take_while(|byte| byte.is_ascii_graphic()).copied().collect();
    String::from_utf8(word).ok().filter(|word| !word.is_empty())
}
