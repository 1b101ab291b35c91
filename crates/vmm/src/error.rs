//! Errors of machines.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use agentiso_core::ports::DiskError;
use agentiso_core::{Code, Explain};

use crate::confine::ConfineError;
use crate::isolation::NotIsolated;
use crate::link::LinkError;
use crate::qmp::QmpError;
use crate::transport::VSOCK_DEVICE;

/// Why a machine could not be started, used or stopped.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// QEMU is not installed.
    #[error("QEMU was not found ({})", looked.display())]
    QemuMissing {
        /// What was searched for.
        looked: PathBuf,
    },
    /// QEMU is installed but cannot be used.
    #[error("QEMU at {} cannot be used: {reason}", path.display())]
    QemuUnusable {
        /// The program.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// QEMU is older than the oldest version that works.
    #[error("QEMU at {} is version {found}; {needed} or newer is needed", path.display())]
    QemuTooOld {
        /// The program.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The oldest that works.
        needed: &'static str,
    },
    /// The agent did not answer in time.
    #[error("the guest did not answer within {} s of {doing}{}{}", limit.as_secs(), because(*reason), tail(console))]
    NoAnswer {
        /// The step that was waited for.
        doing: &'static str,
        /// The time limit.
        limit: Duration,
        /// The reason, if it is known.
        reason: Option<&'static str>,
        /// The console's last lines.
        console: String,
    },
    /// The QEMU process ended by itself.
    #[error("the machine ended unexpectedly: {status}{}{}", tail(stderr), tail(console))]
    Crashed {
        /// How QEMU ended.
        status: String,
        /// The last lines of QEMU's log.
        stderr: String,
        /// The console's last lines.
        console: String,
    },
    /// The kernel killed QEMU for exceeding its memory limit.
    #[error("the machine was killed: it needed more memory than its limit of {} MiB", limit_bytes >> 20)]
    OutOfMemory {
        /// Its limit.
        limit_bytes: u64,
    },
    /// Its limits could not be set, and the configuration requires them.
    #[error("the machine was not started, because its limits cannot be set")]
    Unconfined(#[from] ConfineError),
    /// Its QEMU could not be isolated, and the configuration requires it.
    #[error("the machine was not started, because its QEMU cannot be isolated")]
    NotIsolated(#[from] NotIsolated),
    /// The host's disk is full.
    #[error("the disk of the host is full: there is no room in {} for what the machine writes", dir.display())]
    HostDiskFull {
        /// The machine's directory.
        dir: PathBuf,
    },
    /// Its disk could not be created or opened.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The host's vsock device cannot be used.
    #[error("{VSOCK_DEVICE} cannot be used for the guest link")]
    NoVsock(#[source] io::Error),
    /// A memory image could not be loaded.
    #[error("the template {} could not be restored: {reason}", path.display())]
    BadTemplate {
        /// The template.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The monitor failed.
    #[error(transparent)]
    Monitor(#[from] QmpError),
    /// The guest link failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The operating system refused.
    #[error("could not {doing}")]
    Io {
        /// What was attempted.
        doing: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

impl VmError {
    /// Wraps an operating system error; `doing` completes "could not ...".
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |cause| Self::Io { doing, cause }
    }
}

impl Explain for VmError {
    fn code(&self) -> Code {
        match self {
            Self::QemuMissing { .. } => Code::ToolMissing,
            Self::QemuTooOld { .. } => Code::ToolTooOld,
            Self::QemuUnusable { .. } => Code::ToolFailed,
            Self::NoAnswer { .. } => Code::BootFailed,
            Self::Crashed { .. } => Code::VmCrashed,
            Self::OutOfMemory { .. } => Code::OutOfMemory,
            Self::Unconfined(error) => error.code(),
            Self::NotIsolated(error) => error.code(),
            Self::HostDiskFull { .. } => Code::DiskFull,
            Self::Disk(error) => error.code(),
            Self::BadTemplate { .. } => Code::TemplateInvalid,
            Self::Monitor(QmpError::Timeout { .. }) => Code::Timeout,
            Self::Monitor(_) => Code::ToolFailed,
            Self::Link(error) => error.code(),
            Self::NoVsock(cause) | Self::Io { cause, .. } => Code::of_io(cause),
        }
    }

    fn remedy(&self) -> Option<String> {
        let text = match self {
            Self::Link(error) => return error.remedy(),
            Self::Unconfined(error) => return error.remedy(),
            Self::NotIsolated(error) => return error.remedy(),
            Self::OutOfMemory { .. } => {
                "start it again; if it happens again, raise resources.overhead_mb in the configuration"
            }
            Self::QemuMissing { .. } => {
                "install it (Debian, Ubuntu: apt-get install qemu-system-x86) or set vm.qemu in the configuration"
            }
            Self::QemuTooOld { .. } => "upgrade it, or set vm.qemu in the configuration to a newer one",
            Self::QemuUnusable { .. } => "run it by hand to see what is wrong, or set vm.qemu to another one",
            Self::NoAnswer { .. } => {
                "check that the kernel is a Linux with virtio (vm.kernel), or run 'agentiso check'"
            }
            Self::Crashed { .. } => "look at the lines above; if memory is short, ask for a smaller machine",
            Self::NoVsock(_) => "run 'agentiso check', which says how to get it, or set vm.link to \"auto\"",
            Self::BadTemplate { .. } => "it is rebuilt at the next start; 'agentiso init' does it now",
            Self::Disk(DiskError::Pool(error)) => return error.remedy(),
            _ if self.code() == Code::DiskFull => {
                "free space in the data directory, or set AGENTISO_HOME to a larger disk"
            }
            Self::Disk(error) => return error.remedy(),
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// The end of a log as it appears in a message.
fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

fn tail(log: &str) -> String {
    let log = log.trim_end();
    if log.is_empty() { String::new() } else { format!("\n{log}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vsock_that_cannot_be_used_names_the_device_the_cause_and_a_way_out() {
        let error = VmError::NoVsock(io::ErrorKind::PermissionDenied.into());
        assert_eq!(error.code(), Code::PermissionDenied);
        let said = agentiso_core::chain(&error);
        assert!(said.starts_with("/dev/vhost-vsock cannot be used"), "{said}");
        assert!(said.ends_with("permission denied"), "{said}");
        assert!(error.remedy().unwrap().contains("vm.link"));
    }
}
