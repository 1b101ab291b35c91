//! Mounts of a sandbox.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::path;

/// Something that is mounted in a sandbox. Nothing that is mounted honours set-user-ID bits or contains device nodes,
/// except for [`Mount::Dev`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mount {
    /// A file or directory of the host.
    Bind(Bind),
    /// Directories of the host that are joined by overlayfs.
    Overlay(Overlay),
    /// An empty file system in memory.
    Tmpfs(Tmpfs),
    /// The sandbox's own `/proc`, without the files that concern the whole kernel.
    Proc,
    /// A private `/dev`: `null`, `zero`, `full`, `random`, `urandom`, `tty`, `ptmx`, `pts`, `shm`, `fd`.
    Dev,
}

/// A file or directory of the host that appears in the sandbox, with everything that is mounted below it.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Bind {
    /// The path on the host, without symbolic links.
    #[serde(with = "path::one")]
    pub source: PathBuf,
    /// The path in the sandbox.
    #[serde(with = "path::one")]
    pub target: PathBuf,
    /// Whether it cannot be changed.
    pub readonly: bool,
}

/// Directories of the host joined by overlayfs. The mount has the option `userxattr`, for every user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Overlay {
    /// Layers that are only read, the uppermost first. At least one.
    #[serde(with = "path::list")]
    pub lowers: Vec<PathBuf>,
    /// The directory that receives changes. Required unless `readonly`.
    #[serde(with = "path::optional")]
    pub upper: Option<PathBuf>,
    /// A directory of overlayfs on the file system of `upper`. Required with `upper`.
    #[serde(with = "path::optional")]
    pub work: Option<PathBuf>,
    /// The path in the sandbox.
    #[serde(with = "path::one")]
    pub target: PathBuf,
    /// Whether it cannot be changed. `upper` is then one more layer to read.
    pub readonly: bool,
}

/// An empty file system in memory.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Tmpfs {
    /// The path in the sandbox.
    #[serde(with = "path::one")]
    pub target: PathBuf,
    /// The most bytes it can hold.
    pub size: u64,
    /// Permissions of its root directory.
    pub mode: u32,
}

impl Bind {
    /// Shows `source` at `target`, read-only.
    pub fn readonly(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into(), readonly: true }
    }

    /// Shows `source` at `target`, where it can be changed.
    pub fn writable(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> Self {
        Self { source: source.into(), target: target.into(), readonly: false }
    }
}

impl Tmpfs {
    /// The size of a file system in memory unless it is given.
    pub const DEFAULT_SIZE: u64 = 512 << 20;

    /// An empty directory with permissions 1777 and [`Tmpfs::DEFAULT_SIZE`].
    pub fn new(target: impl Into<PathBuf>) -> Self {
        Self { target: target.into(), size: Self::DEFAULT_SIZE, mode: 0o1777 }
    }

    /// An empty directory that only the command's user can enter.
    pub fn private(target: impl Into<PathBuf>) -> Self {
        Self { mode: 0o700, ..Self::new(target) }
    }

    /// Limits the size.
    #[must_use]
    pub fn with_size(mut self, bytes: u64) -> Self {
        self.size = bytes;
        self
    }
}

impl Mount {
    /// The path in the sandbox.
    pub fn target(&self) -> &Path {
        match self {
            Self::Bind(bind) => &bind.target,
            Self::Overlay(overlay) => &overlay.target,
            Self::Tmpfs(tmpfs) => &tmpfs.target,
            Self::Proc => Path::new("/proc"),
            Self::Dev => Path::new("/dev"),
        }
    }

    /// Whether commands may change it, as far as its permissions allow.
    pub(crate) fn is_writable(&self) -> bool {
        match self {
            Self::Bind(bind) => !bind.readonly,
            Self::Overlay(overlay) => !overlay.readonly,
            Self::Tmpfs(_) | Self::Proc | Self::Dev => true,
        }
    }
}

impl From<Bind> for Mount {
    fn from(bind: Bind) -> Self {
        Self::Bind(bind)
    }
}

impl From<Overlay> for Mount {
    fn from(overlay: Overlay) -> Self {
        Self::Overlay(overlay)
    }
}

impl From<Tmpfs> for Mount {
    fn from(tmpfs: Tmpfs) -> Self {
        Self::Tmpfs(tmpfs)
    }
}
