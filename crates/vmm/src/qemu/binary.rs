//! Finding QEMU and reading its version.
#![expect(clippy::disallowed_methods, reason = "`find` runs `in_place`")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_blocking::in_place;
use serde::{Deserialize, Serialize};

use crate::VmError;

/// The oldest QEMU whose memory images work the way templates need.
pub const MIN_VERSION: (u32, u32) = (7, 2);
const MIN_VERSION_TEXT: &str = "7.2";
const PROGRAM: &str = "qemu-system-x86_64";
/// Directories searched in addition to `PATH`.
const USUAL_PLACES: [&str; 4] = ["/usr/bin", "/usr/local/bin", "/usr/libexec", "/opt/homebrew/bin"];
const FIRMWARE: &str = "qboot.rom";

/// A QEMU that can be used.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Qemu {
    /// The program.
    pub path: PathBuf,
    /// Its version as it prints it.
    pub version: String,
    /// Major and minor version.
    pub release: (u32, u32),
    /// The firmware that starts a kernel by PVH.
    pub firmware: PathBuf,
    /// Identifies the program file: a memory image can be restored only by the QEMU build that made it.
    pub identity: String,
}

impl Qemu {
    /// Whether it can be told to open the file behind private memory for reading only.
    pub fn opens_memory_read_only(&self) -> bool {
        self.release >= (9, 0)
    }
}

/// Finds QEMU and checks that it can be used. The result is cached in `cache` until the program file changes, because
/// running QEMU for its version takes as long as starting a machine.
pub fn find(configured: Option<&Path>, cache: &Path) -> Result<Qemu, VmError> {
    in_place(|| find_blocking(configured, cache))
}

fn find_blocking(configured: Option<&Path>, cache: &Path) -> Result<Qemu, VmError> {
    let path = match configured {
        Some(path) => path.to_owned(),
        None => search().ok_or_else(|| VmError::QemuMissing { looked: PROGRAM.into() })?,
    };
    let identity = identity(&path)?;
    if let Some(known) = recall(cache, &path, &identity) {
        return Ok(known);
    }
    let qemu = inspect(path, identity)?;
    remember(cache, &qemu);
    Ok(qemu)
}

fn search() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(USUAL_PLACES.iter().map(PathBuf::from))
        .map(|dir| dir.join(PROGRAM))
        .find(|candidate| candidate.is_file())
}

fn identity(path: &Path) -> Result<String, VmError> {
    let meta = fs::metadata(path).map_err(|_| VmError::QemuMissing { looked: path.to_owned() })?;
    Ok(format!("{}:{}:{}.{}", meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn recall(cache: &Path, path: &Path, identity: &str) -> Option<Qemu> {
    let known: Qemu = serde_json::from_slice(&fs::read(cache).ok()?).ok()?;
    (known.path == path && known.identity == identity && known.firmware.is_file()).then_some(known)
}

/// A failure only costs time at the next start.
fn remember(cache: &Path, qemu: &Qemu) {
    if let (Some(dir), Ok(text)) = (cache.parent(), serde_json::to_vec_pretty(qemu)) {
        let _ = fs::create_dir_all(dir).and_then(|()| fs::write(cache, text));
    }
}

fn inspect(path: PathBuf, identity: String) -> Result<Qemu, VmError> {
    let text = ask(&path, "--version")?;
    let Some((version, release)) = parse_version(&text) else {
        return Err(VmError::QemuUnusable { path, reason: "it does not say its version".to_owned() });
    };
    if release < MIN_VERSION {
        return Err(VmError::QemuTooOld { path, found: version, needed: MIN_VERSION_TEXT });
    }
    let Some(firmware) = find_firmware(&path) else {
        return Err(VmError::QemuUnusable {
            path,
            reason: format!("its firmware file {FIRMWARE} was not found"),
        });
    };
    if !ask(&path, "-machine=help")?.contains("microvm") {
        return Err(VmError::QemuUnusable {
            path,
            reason: "it was built without the microvm machine".to_owned(),
        });
    }
    Ok(Qemu { path, version, release, firmware, identity })
}

fn ask(path: &Path, question: &str) -> Result<String, VmError> {
    let arguments: Vec<&str> = question.split('=').collect();
    let unusable = |reason: String| VmError::QemuUnusable { path: path.to_owned(), reason };
    let output = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unusable(error.to_string()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(unusable(format!(
            "{question} failed: {}",
            words.lines().next().unwrap_or("no reason given")
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn find_firmware(program: &Path) -> Option<PathBuf> {
    let beside = program.parent().and_then(Path::parent).map(|prefix| prefix.join("share/qemu"));
    beside
        .into_iter()
        .chain(["/usr/share/qemu", "/usr/local/share/qemu", "/usr/share/qemu-kvm"].map(PathBuf::from))
        .map(|dir| dir.join(OsStr::new(FIRMWARE)))
        .find(|file| file.is_file())
}

/// Reads "QEMU emulator version 7.2.22 (Debian …)".
fn parse_version(text: &str) -> Option<(String, (u32, u32))> {
    let version = text.split("version ").nth(1)?.split_whitespace().next()?;
    let mut parts = version.split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?.parse().ok()?;
    Some((version.to_owned(), (major, minor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_distributions_print() {
        let debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022";
        assert_eq!(parse_version(debian), Some(("7.2.22".to_owned(), (7, 2))));
        assert_eq!(parse_version("QEMU emulator version 10.0.2\n").map(|v| v.1), Some((10, 0)));
        assert_eq!(parse_version("hello"), None);
        assert_eq!(parse_version("version x.y"), None);
    }

    #[test]
    fn a_program_that_is_not_qemu_is_refused_with_its_name() {
        let cache = std::env::temp_dir().join("agentiso-no-such-cache/qemu.json");
        let error = find(Some(Path::new("/bin/true")), &cache).unwrap_err();
        assert_eq!(error.to_string(), "QEMU at /bin/true cannot be used: it does not say its version");
        let error = find(Some(Path::new("/no/such/qemu")), &cache).unwrap_err();
        assert_eq!(error.to_string(), "QEMU was not found (/no/such/qemu)");
    }
}
