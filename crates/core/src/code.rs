//! Stable error codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong, for programs: the text of a message may change, its code does not.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The request itself is wrong: a value out of range, a malformed name.
    InvalidArgument,
    /// The configuration file cannot be used.
    InvalidConfig,
    /// No image has that name.
    ImageNotFound,
    /// An image of that name exists already.
    ImageExists,
    /// Workspaces need the image.
    ImageInUse,
    /// An archive, registry answer or directory is not what it claims to be, or is hostile.
    ImageRejected,
    /// A registry or package source could not be reached or refused us.
    FetchFailed,
    /// No usable guest kernel was found.
    KernelNotFound,
    /// The guest kernel started but its agent never answered.
    BootFailed,
    /// A program agentiso needs is not installed.
    ToolMissing,
    /// A program agentiso needs is too old.
    ToolTooOld,
    /// A program agentiso ran failed.
    ToolFailed,
    /// The virtual machine ended when it should not have.
    VmCrashed,
    /// The virtual machine was killed because it needed more memory than its limit.
    OutOfMemory,
    /// The limits of a virtual machine cannot be set, and it must not run without.
    LimitsUnavailable,
    /// The QEMU of a virtual machine cannot be isolated from the host, and it must not run otherwise.
    IsolationUnavailable,
    /// The virtual machine or its agent did not answer in time.
    Timeout,
    /// The agent in the guest refused or failed a request.
    GuestFailed,
    /// What came over the guest link made no sense.
    ProtocolViolation,
    /// A template is damaged or does not fit.
    TemplateInvalid,
    /// No workspace has that name or id.
    WorkspaceNotFound,
    /// A workspace of that name exists already.
    WorkspaceExists,
    /// Another command is at work on the workspace.
    WorkspaceBusy,
    /// The workspace must be running for this, and is not.
    WorkspaceNotRunning,
    /// The workspace must be stopped for this, and is running.
    WorkspaceRunning,
    /// No snapshot of the workspace has that name.
    SnapshotNotFound,
    /// A snapshot of that name exists already.
    SnapshotExists,
    /// Forks need the snapshot.
    SnapshotInUse,
    /// The memory of a snapshot does not fit this host: another QEMU, kernel or processor.
    SnapshotIncompatible,
    /// No session has that id.
    SessionNotFound,
    /// Another session owns the workspace.
    NotOwner,
    /// The session, or the installation, would have more than it may.
    QuotaExceeded,
    /// Too many calls in too short a time.
    RateLimited,
    /// Whoever asks has not said, or not proved, who it is.
    Unauthorized,
    /// The key was used for another request, or for one that has not ended.
    IdempotencyConflict,
    /// No background command of the workspace has that number.
    JobNotFound,
    /// There is no such file or directory in the workspace.
    FileNotFound,
    /// The path, or a part of it, is not a directory.
    NotADirectory,
    /// There is something at that path already.
    FileExists,
    /// The file is not text.
    FileNotText,
    /// The file, or the part of it that was asked for, is too large for this.
    FileTooLarge,
    /// The text to replace is not there, or there more than once.
    EditMismatch,
    /// The workspace has no user of that name.
    UserNotFound,
    /// The path on the host is not one an agent may touch.
    PathNotAllowed,
    /// The operator does not let agents do this.
    NotPermitted,
    /// The port is taken, reserved or not one that may be used.
    PortUnavailable,
    /// Workspaces have no network.
    NetworkUnavailable,
    /// Git refused or failed.
    GitFailed,
    /// The directory is not a git repository.
    NotARepository,
    /// The daemon could not be reached or started.
    DaemonUnavailable,
    /// This cannot be done here.
    Unsupported,
    /// What is stored is not what was stored.
    DataDamaged,
    /// The disk is full.
    DiskFull,
    /// What keeps the disks is not there: a pool that was exported, a device that did not appear.
    StorageUnavailable,
    /// The operating system refused.
    PermissionDenied,
    /// A file could not be read or written.
    Io,
    /// The user or caller ended it.
    Cancelled,
    /// A fault of ours.
    Internal,
}

impl Code {
    /// Returns every code there is, in the order the documentation lists them.
    pub fn all() -> &'static [Self] {
        &[
            Self::InvalidArgument,
            Self::InvalidConfig,
            Self::ImageNotFound,
            Self::ImageExists,
            Self::ImageInUse,
            Self::ImageRejected,
            Self::FetchFailed,
            Self::KernelNotFound,
            Self::BootFailed,
            Self::ToolMissing,
            Self::ToolTooOld,
            Self::ToolFailed,
            Self::VmCrashed,
            Self::OutOfMemory,
            Self::LimitsUnavailable,
            Self::IsolationUnavailable,
            Self::Timeout,
            Self::GuestFailed,
            Self::ProtocolViolation,
            Self::TemplateInvalid,
            Self::WorkspaceNotFound,
            Self::WorkspaceExists,
            Self::WorkspaceBusy,
            Self::WorkspaceNotRunning,
            Self::WorkspaceRunning,
            Self::SnapshotNotFound,
            Self::SnapshotExists,
            Self::SnapshotInUse,
            Self::SnapshotIncompatible,
            Self::SessionNotFound,
            Self::NotOwner,
            Self::QuotaExceeded,
            Self::RateLimited,
            Self::Unauthorized,
            Self::IdempotencyConflict,
            Self::JobNotFound,
            Self::FileNotFound,
            Self::NotADirectory,
            Self::FileExists,
            Self::FileNotText,
            Self::FileTooLarge,
            Self::EditMismatch,
            Self::UserNotFound,
            Self::PathNotAllowed,
            Self::NotPermitted,
            Self::PortUnavailable,
            Self::NetworkUnavailable,
            Self::GitFailed,
            Self::NotARepository,
            Self::DaemonUnavailable,
            Self::Unsupported,
            Self::DataDamaged,
            Self::DiskFull,
            Self::StorageUnavailable,
            Self::PermissionDenied,
            Self::Io,
            Self::Cancelled,
            Self::Internal,
        ]
    }

    /// Returns the code as it is printed and serialised.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::InvalidConfig => "invalid_config",
            Self::ImageNotFound => "image_not_found",
            Self::ImageExists => "image_exists",
            Self::ImageInUse => "image_in_use",
            Self::ImageRejected => "image_rejected",
            Self::FetchFailed => "fetch_failed",
            Self::KernelNotFound => "kernel_not_found",
            Self::BootFailed => "boot_failed",
            Self::ToolMissing => "tool_missing",
            Self::ToolTooOld => "tool_too_old",
            Self::ToolFailed => "tool_failed",
            Self::VmCrashed => "vm_crashed",
            Self::OutOfMemory => "out_of_memory",
            Self::LimitsUnavailable => "limits_unavailable",
            Self::IsolationUnavailable => "isolation_unavailable",
            Self::Timeout => "timeout",
            Self::GuestFailed => "guest_failed",
            Self::ProtocolViolation => "protocol_violation",
            Self::TemplateInvalid => "template_invalid",
            Self::WorkspaceNotFound => "workspace_not_found",
            Self::WorkspaceExists => "workspace_exists",
            Self::WorkspaceBusy => "workspace_busy",
            Self::WorkspaceNotRunning => "workspace_not_running",
            Self::WorkspaceRunning => "workspace_running",
            Self::SnapshotNotFound => "snapshot_not_found",
            Self::SnapshotExists => "snapshot_exists",
            Self::SnapshotInUse => "snapshot_in_use",
            Self::SnapshotIncompatible => "snapshot_incompatible",
            Self::SessionNotFound => "session_not_found",
            Self::NotOwner => "not_owner",
            Self::QuotaExceeded => "quota_exceeded",
            Self::RateLimited => "rate_limited",
            Self::Unauthorized => "unauthorized",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::JobNotFound => "job_not_found",
            Self::FileNotFound => "file_not_found",
            Self::NotADirectory => "not_a_directory",
            Self::FileExists => "file_exists",
            Self::FileNotText => "file_not_text",
            Self::FileTooLarge => "file_too_large",
            Self::EditMismatch => "edit_mismatch",
            Self::UserNotFound => "user_not_found",
            Self::PathNotAllowed => "path_not_allowed",
            Self::NotPermitted => "not_permitted",
            Self::PortUnavailable => "port_unavailable",
            Self::NetworkUnavailable => "network_unavailable",
            Self::GitFailed => "git_failed",
            Self::NotARepository => "not_a_repository",
            Self::DaemonUnavailable => "daemon_unavailable",
            Self::Unsupported => "unsupported",
            Self::DataDamaged => "data_damaged",
            Self::DiskFull => "disk_full",
            Self::StorageUnavailable => "storage_unavailable",
            Self::PermissionDenied => "permission_denied",
            Self::Io => "io",
            Self::Cancelled => "cancelled",
            Self::Internal => "internal",
        }
    }

    /// Returns the code that fits an operating system error.
    pub fn of_io(error: &std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::DiskFull,
            ErrorKind::PermissionDenied => Self::PermissionDenied,
            ErrorKind::TimedOut => Self::Timeout,
            _ => Self::Io,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_and_serialised_forms_agree() {
        for code in Code::all() {
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{code}\""));
        }
    }

    #[test]
    fn the_list_of_codes_is_complete() {
        // Serde knows every variant and names them all when it meets a stranger.
        let complaint = serde_json::from_str::<Code>("\"stranger\"").unwrap_err().to_string();
        let known: Vec<&str> = complaint.split('`').skip(3).step_by(2).collect();
        assert_eq!(known, Code::all().iter().map(|code| code.as_str()).collect::<Vec<_>>());
    }

    #[test]
    fn a_full_disk_is_told_from_other_io_errors() {
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(28)), Code::DiskFull);
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(13)), Code::PermissionDenied);
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(5)), Code::Io);
    }
}
