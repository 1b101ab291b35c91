//! What this host can do. Found by trying it on the file system in question, because every part of it can be switched off
//! separately.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ioctl_ficlone, openat, statat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};

use crate::error::MountError;
use crate::files::{
    boot_id, names, new_directory, private_directory, random_name, read_record, remove_tree, wait_lock,
    write_record,
};
use crate::namespace::{Namespaces, in_child};
use crate::overlay::Overlay;

const RECORD: &str = "support.json";
const VERSION: u32 = 1;
const SCRATCH: &str = ".probe-";

/// What this host can do, and why it cannot do the rest.
#[derive(Clone, Debug)]
pub struct Support {
    overlay: Result<(), String>,
    direct: Result<(), String>,
    fuse: Result<(), String>,
    reflink: bool,
}

/// What was found. Only success is remembered, and only until the next boot.
#[derive(Debug, Deserialize, Serialize)]
struct Record {
    version: u32,
    boot: String,
    user: u32,
    reflink: bool,
}

impl Support {
    /// Tries everything on the file system of a directory.
    pub fn probe(directory: &Path) -> Result<Self, MountError> {
        private_directory(directory)?;
        let record_path = directory.join(RECORD);
        let user = rustix::process::geteuid();
        let direct = if user.is_root() {
            Ok(())
        } else {
            Err("only root may mount an overlay that other programs see".to_owned())
        };
        // A damaged record only costs the time of another probe.
        if let Ok(Some(record)) = read_record::<Record>(&record_path)
            && (record.version, record.boot, record.user) == (VERSION, boot_id(), user.as_raw())
        {
            return Ok(Self { overlay: Ok(()), direct, fuse: fuse(), reflink: record.reflink });
        }
        let overlay = try_overlay(directory)?;
        let reflink = can_reflink(directory);
        if overlay.is_ok() {
            let record = Record { version: VERSION, boot: boot_id(), user: user.as_raw(), reflink };
            write_record(&record_path, &record)?;
        }
        Ok(Self { overlay, direct, fuse: fuse(), reflink })
    }

    /// A host without overlayfs, user namespaces and FUSE: plain directories are used for everything.
    pub fn none(reason: &str) -> Self {
        let no = || Err(reason.to_owned());
        Self { overlay: no(), direct: no(), fuse: no(), reflink: false }
    }

    /// Whether a user namespace can mount an overlay here, or why not.
    pub fn overlay(&self) -> &Result<(), String> {
        &self.overlay
    }

    /// Whether the caller can mount an overlay that other programs see, or why not.
    pub fn direct(&self) -> &Result<(), String> {
        &self.direct
    }

    /// Whether the caller can serve a directory over FUSE, or why not.
    pub fn fuse(&self) -> &Result<(), String> {
        &self.fuse
    }

    /// Whether files can be copied without copying their data.
    pub fn reflink(&self) -> bool {
        self.reflink
    }
}

/// Whether the file system of a directory clones files.
pub(crate) fn can_reflink(directory: &Path) -> bool {
    let Ok(name) = random_name() else { return false };
    let (from, to) = (directory.join(format!(".clone-{name}")), directory.join(format!(".clone-{name}-2")));
    let attempt = || -> std::io::Result<()> {
        fs::write(&from, [1; 4096])?;
        let copy = File::create_new(&to)?;
        Ok(ioctl_ficlone(&copy, &File::open(&from)?)?)
    };
    let is_possible = attempt().is_ok();
    let _ = fs::remove_file(&from);
    let _ = fs::remove_file(&to);
    is_possible
}

fn fuse() -> Result<(), String> {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => {}
        Err(error) if rustix::process::geteuid().is_root() => return Err(format!("/dev/fuse: {error}")),
        Err(error) => return Err(format!("/dev/fuse: {error}; it must be readable and writable for you")),
    }
    if rustix::process::geteuid().is_root() || fusermount().is_some() {
        Ok(())
    } else {
        Err("the program fusermount3 is not installed (package fuse3)".to_owned())
    }
}

/// The program that mounts and unmounts FUSE file systems for ordinary users.
pub(crate) fn fusermount() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = [PathBuf::from("/usr/bin"), PathBuf::from("/bin")];
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join("fusermount3")).find(|path| path.is_file())
}

/// Removed when dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_tree(&self.0);
    }
}

/// What the child of the probe did when it failed.
const STEPS: [&str; 5] = [
    "create a user namespace",
    "mount an overlay in a user namespace",
    "write to a file of the lower layer",
    "remove a file of the lower layer",
    "see what was removed",
];

/// Mounts a small overlay in a user namespace of a child process, writes to it and removes from it.
fn try_overlay(directory: &Path) -> Result<Result<(), String>, MountError> {
    // One probe at a time, so what is there already was left by one that was killed.
    let _lock = wait_lock(&directory.join(".probe.lock"), true)?;
    for name in names(directory)?.iter().filter(|name| name.starts_with(SCRATCH)) {
        remove_tree(&directory.join(name))?;
    }
    let scratch = Scratch(directory.join(format!("{SCRATCH}{}", random_name()?)));
    new_directory(&scratch.0, 0o700)?;
    let at = |name: &str| scratch.0.join(name);
    for name in ["lower", "upper", "work", "merged", "empty"] {
        new_directory(&at(name), 0o700)?;
    }
    for name in ["written", "removed"] {
        fs::write(at("lower").join(name), "lower").map_err(MountError::io("write", at("lower")))?;
    }
    let overlay = Overlay {
        lowers: vec![at("lower")],
        upper: at("upper"),
        work: at("work"),
        empty: at("empty"),
        userxattr: true,
    };
    let data = overlay.data()?;
    let c_path = |path: PathBuf| {
        CString::new(path.as_os_str().as_bytes())
            .map_err(|_| MountError::invalid(path.display(), "it contains NUL"))
    };
    let merged = c_path(at("merged"))?;
    let (written, removed) = (c_path(at("merged").join("written"))?, c_path(at("merged").join("removed"))?);
    let namespaces = Namespaces::with_user();
    let outcome = in_child(|| {
        let at = |step: u8| move |error: Errno| (step, error);
        namespaces.enter().map_err(at(0))?;
        mount(c"overlay", merged.as_c_str(), c"overlay", MountFlags::empty(), Some(data.as_c_str()))
            .map_err(at(1))?;
        let file = openat(CWD, written.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        rustix::io::write(file.map_err(at(2))?, b"upper").map_err(at(2))?;
        unlinkat(CWD, removed.as_c_str(), AtFlags::empty()).map_err(at(3))?;
        match statat(CWD, removed.as_c_str(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err((4, error)),
            Ok(_) => Err((4, Errno::EXIST)),
        }
    });
    Ok(match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err((step, error))) => {
            let step = STEPS.get(usize::from(step)).unwrap_or(&"use an overlay");
            Err(format!("could not {step}: {}", std::io::Error::from(error)))
        }
        Err(error) => Err(format!("could not try an overlay: {error}")),
    })
}
