//! Why a machine has no limits.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

/// Why a machine could not be held to its limits.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// There is no unified hierarchy.
    #[error("this host has no cgroup v2")]
    NoV2,
    /// The unified hierarchy is there and can limit nothing of use.
    #[error("cgroup v2 is at {} but offers only: {}", mount.display(), if offered.is_empty() { "nothing" } else { offered })]
    NotUnified {
        /// Where it is mounted.
        mount: PathBuf,
        /// Its controllers.
        offered: String,
    },
    /// Nobody gives an ordinary user a group.
    #[error("there is no systemd of this user that could give its machines a group ({} cannot be reached)", socket.display())]
    NoManager {
        /// Where it would listen.
        socket: PathBuf,
        /// Why it cannot be reached.
        #[source]
        cause: io::Error,
    },
    /// Systemd is not there, and we are not root.
    #[error("only root may make groups on a host without systemd")]
    NotRoot,
    /// Systemd refused.
    #[error("systemd refused to {doing}: {reason}")]
    Refused {
        /// What was asked.
        doing: &'static str,
        /// What D-Bus calls the error.
        name: String,
        /// What it said.
        reason: String,
    },
    /// Some controllers are not given to us.
    #[error("these controllers are not delegated to {}: {}", group.display(), missing.join(", "))]
    Missing {
        /// The group that lacks them.
        group: PathBuf,
        /// Which.
        missing: Vec<&'static str>,
    },
    /// The disk of the data directory cannot be limited.
    #[error("the disk under {} cannot be limited: {reason}", dir.display())]
    NoDevice {
        /// The data directory.
        dir: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The kernel refused.
    #[error("could not {doing}")]
    Io {
        /// What was under way.
        doing: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl ConfineError {
    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |cause| Self::Io { doing, cause }
    }

    /// Whether a group vanished under us, or somebody else is making it, so that another attempt finds or makes it.
    pub(super) fn passes(&self) -> bool {
        match self {
            Self::Io { cause, .. } => matches!(cause.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)),
            Self::Refused { name, .. } => name.ends_with(".UnitExists"),
            _ => false,
        }
    }
}

impl Explain for ConfineError {
    fn code(&self) -> Code {
        Code::LimitsUnavailable
    }

    fn remedy(&self) -> Option<String> {
        let text = match self {
            Self::NoV2 | Self::NotUnified { .. } => {
                "boot the host with systemd.unified_cgroup_hierarchy=1 on its kernel's command line"
            }
            Self::NoManager { .. } => "let it run without a login: sudo loginctl enable-linger $USER",
            Self::NotRoot => "run agentiso as root, or on a host with systemd",
            Self::Missing { .. } => {
                "delegate them: sudo systemctl edit user@.service, add [Service] and \
                 Delegate=cpu cpuset io memory pids, then log in again"
            }
            Self::NoDevice { .. } => {
                "set resources.io_read_mb_per_sec and io_write_mb_per_sec to 0, or AGENTISO_HOME to a directory on a \
                 disk of its own"
            }
            Self::Refused { .. } | Self::Io { .. } => {
                "run 'agentiso check'; without resources.cgroup_required machines run unlimited"
            }
        };
        Some(text.to_owned())
    }
}
