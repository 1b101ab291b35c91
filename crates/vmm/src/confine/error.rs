//! Errors of resource limits.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

/// Why the limits of a machine could not be set.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The host has no cgroup v2.
    #[error("this host has no cgroup v2")]
    NoV2,
    /// cgroup v2 is mounted, but without the controllers that are needed.
    #[error("cgroup v2 is at {} but offers only: {}", mount.display(), if offered.is_empty() { "nothing" } else { offered })]
    NotUnified {
        /// Where it is mounted.
        mount: PathBuf,
        /// Its controllers.
        offered: String,
    },
    /// There is no user manager that could create a cgroup.
    #[error("there is no systemd of this user that could give its machines a group ({} cannot be reached)", socket.display())]
    NoManager {
        /// Where it would listen.
        socket: PathBuf,
        /// Why it cannot be reached.
        #[source]
        cause: io::Error,
    },
    /// There is no systemd, and this process is not root.
    #[error("only root may make groups on a host without systemd")]
    NotRoot,
    /// Systemd refused.
    #[error("systemd refused to {doing}: {reason}")]
    Refused {
        /// What was requested.
        doing: &'static str,
        /// The D-Bus error name.
        name: String,
        /// The message of the error.
        reason: String,
    },
    /// Some controllers are not delegated.
    #[error("these controllers are not delegated to {}: {}", group.display(), missing.join(", "))]
    Missing {
        /// The group that lacks them.
        group: PathBuf,
        /// The missing controllers.
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

    /// Whether another attempt may succeed: the cgroup was removed, or is being created by another process.
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
