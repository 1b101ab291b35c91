//! What a sandbox contains.

mod check;
mod limits;
mod mounts;
pub(crate) mod path;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::enforcement::Measure;

pub use limits::Limits;
pub use mounts::{Bind, Mount, Overlay, Tmpfs};

/// The version of [`Spec`] that this crate writes and reads.
pub const SPEC_VERSION: u32 = 1;

/// A sandbox: its files, user, network and limits.
///
/// [`Spec::check`] says whether it can be used; [`crate::Launcher`] checks it before anything else. Paths of the host must
/// be absolute and must not lead through symbolic links, so that nobody who can write to a directory on the way can
/// redirect a mount. Paths in the sandbox are absolute and contain no `..`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// [`SPEC_VERSION`].
    pub version: u32,
    /// The root directory.
    pub root: Root,
    /// What is mounted, in this order. A later mount may cover a part of an earlier one.
    pub mounts: Vec<Mount>,
    /// Whether overlays leave it to the kernel when changes reach the disk. When a writable overlay is unmounted the kernel
    /// otherwise flushes the whole file system of its upper directory, which can take seconds. With this, `fsync` in the
    /// overlay does nothing, and after a power failure changes may be missing. Killed processes lose nothing.
    #[serde(default)]
    pub volatile_overlays: bool,
    /// Whether the caller is asked about each rename of a command before it is made: see
    /// [`crate::Running::take_rename_notifier`].
    #[serde(default)]
    pub supervised_renames: bool,
    /// The user and group that the command sees itself as.
    pub user: ShownUser,
    /// Capabilities over the files of the sandbox.
    pub file_capabilities: FileCapabilities,
    /// The home directory in the sandbox, for programs that ask who they are. Something must be mounted there.
    #[serde(with = "path::one")]
    pub home: PathBuf,
    /// The host name in the sandbox.
    pub hostname: String,
    /// The network of the sandbox.
    pub network: Network,
    /// Limits of all commands together.
    pub limits: Limits,
    /// Measures without which nothing may run.
    pub require: Vec<Measure>,
    /// A directory of the host for temporary files where mounts are impossible. The caller creates and removes it.
    #[serde(with = "path::optional")]
    pub scratch: Option<PathBuf>,
}

/// The root directory of a sandbox. It is read-only except for [`Root::Overlay`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Root {
    /// Programs and libraries of the host (`/usr`, `/bin`, `/lib*`, `/nix/store`) and the public part of its `/etc`.
    Host,
    /// A directory of the host that contains a root file system, for example an unpacked image. Mount points that are
    /// missing in it are created beside its directories, not in them.
    Directory(#[serde(with = "path::one")] PathBuf),
    /// A root file system that can be changed. The target of this overlay must be `/`. Missing mount points are created
    /// in it.
    Overlay(Overlay),
}

/// Which user the command sees itself as. On the host it is always the caller's user.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownUser {
    /// The caller's own user and group. Files of the caller belong to the command, as they do outside.
    #[default]
    Caller,
    /// User and group 0. Files of the caller appear as files of root.
    Root,
}

/// Capabilities that the command keeps over files whose owners exist in its user namespace.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileCapabilities {
    /// None: the command may do what its user may do.
    #[default]
    None,
    /// `CHOWN`, `DAC_OVERRIDE`, `FOWNER` and `FSETID`, as root has them in a machine. They apply only to files that the
    /// sandbox shows, and to writes only where those are mounted writable.
    All,
}

/// The network of a sandbox.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// A network namespace with nothing but a loopback interface.
    #[default]
    Off,
    /// The host's network.
    Host,
    /// The namespace given by [`crate::Launcher::in_network`].
    Namespace,
}

impl Spec {
    /// The home directory unless given.
    pub const HOME: &str = "/home/agent";

    /// A sandbox with the host's programs, private `/proc`, `/dev`, `/tmp` and home, no network, and nothing else.
    pub fn new() -> Self {
        Self {
            version: SPEC_VERSION,
            root: Root::Host,
            mounts: vec![
                Mount::Proc,
                Mount::Dev,
                Mount::Tmpfs(Tmpfs::new("/tmp")),
                Mount::Tmpfs(Tmpfs::private(Self::HOME)),
            ],
            volatile_overlays: false,
            supervised_renames: false,
            user: ShownUser::default(),
            file_capabilities: FileCapabilities::default(),
            home: PathBuf::from(Self::HOME),
            hostname: "sandbox".to_owned(),
            network: Network::default(),
            limits: Limits::default(),
            require: Vec::new(),
            scratch: None,
        }
    }

    /// Adds a mount.
    #[must_use]
    pub fn mount(mut self, mount: impl Into<Mount>) -> Self {
        self.mounts.push(mount.into());
        self
    }

    /// Makes a measure mandatory.
    #[must_use]
    pub fn require(mut self, measure: Measure) -> Self {
        self.require.push(measure);
        self
    }
}

impl Default for Spec {
    fn default() -> Self {
        Self::new()
    }
}
