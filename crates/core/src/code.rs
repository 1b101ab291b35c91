//! Stable error codes.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Declares the codes: meaning, name, HTTP status and, if it differs from that of other failures, the exit status of a
/// command.
macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $code:ident = $text:literal, $status:literal $(, exit $exit:literal)?;)+) => {
        /// The stable code of an error. Messages may change, codes do not.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
        pub enum Code {
            $($(#[doc = $meaning])+ #[serde(rename = $text)] $code,)+
        }

        impl Code {
            /// Returns every code there is, in the order the documentation lists them.
            pub const fn all() -> &'static [Self] {
                &[$(Self::$code),+]
            }

            /// Returns the code as it is printed and serialised.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$code => $text,)+
                }
            }

            /// Returns what the code means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$code => concat!($($meaning),+).trim_ascii(),)+
                }
            }

            /// Returns the status of an HTTP response that carries the code.
            pub const fn http_status(self) -> u16 {
                match self {
                    $(Self::$code => $status,)+
                }
            }

            /// Returns the exit status of a command that ends with the code, if it has its own.
            pub const fn exit_status(self) -> Option<u8> {
                match self {
                    $($(Self::$code => Some($exit),)?)+
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// The request itself is wrong: a value out of range, a malformed name.
    InvalidArgument = "invalid_argument", 400;
    /// The configuration file cannot be used.
    InvalidConfig = "invalid_config", 500;
    /// No image has that name.
    ImageNotFound = "image_not_found", 404;
    /// An image of that name exists already.
    ImageExists = "image_exists", 409;
    /// Workspaces need the image.
    ImageInUse = "image_in_use", 409;
    /// An archive, registry response or directory is malformed or hostile.
    ImageRejected = "image_rejected", 500;
    /// A registry or package source could not be reached, or refused the request.
    FetchFailed = "fetch_failed", 500;
    /// No usable guest kernel was found.
    KernelNotFound = "kernel_not_found", 500;
    /// The guest kernel started but its agent never answered.
    BootFailed = "boot_failed", 504;
    /// A program agentiso needs is not installed.
    ToolMissing = "tool_missing", 500;
    /// A program agentiso needs is too old.
    ToolTooOld = "tool_too_old", 500;
    /// A program agentiso ran failed.
    ToolFailed = "tool_failed", 500;
    /// The virtual machine ended unexpectedly.
    VmCrashed = "vm_crashed", 502;
    /// The virtual machine was killed because it needed more memory than its limit.
    OutOfMemory = "out_of_memory", 502;
    /// The limits of a virtual machine cannot be set, and it must not run without.
    LimitsUnavailable = "limits_unavailable", 503;
    /// The QEMU of a virtual machine cannot be isolated from the host, and it must not run otherwise.
    IsolationUnavailable = "isolation_unavailable", 503;
    /// The virtual machine or its agent did not answer in time.
    Timeout = "timeout", 504;
    /// The agent in the guest refused or failed a request.
    GuestFailed = "guest_failed", 502;
    /// The guest sent data that violates the protocol.
    ProtocolViolation = "protocol_violation", 500;
    /// A template is damaged or does not fit.
    TemplateInvalid = "template_invalid", 500;
    /// No workspace has that name or id.
    WorkspaceNotFound = "workspace_not_found", 404;
    /// A workspace of that name exists already.
    WorkspaceExists = "workspace_exists", 409;
    /// Another operation on the workspace is in progress.
    WorkspaceBusy = "workspace_busy", 409;
    /// The operation needs a running workspace, and it is not running.
    WorkspaceNotRunning = "workspace_not_running", 409;
    /// The operation needs a stopped workspace, and it is running.
    WorkspaceRunning = "workspace_running", 409;
    /// No snapshot of the workspace has that name.
    SnapshotNotFound = "snapshot_not_found", 404;
    /// A snapshot of that name exists already.
    SnapshotExists = "snapshot_exists", 409;
    /// Forks need the snapshot.
    SnapshotInUse = "snapshot_in_use", 409;
    /// The memory of a snapshot does not fit this host: another QEMU, kernel or processor.
    SnapshotIncompatible = "snapshot_incompatible", 409;
    /// No vault has that name or id.
    VaultNotFound = "vault_not_found", 404;
    /// A vault of that name exists already.
    VaultExists = "vault_exists", 409;
    /// Commands are running in the vault, or others change it all the time.
    VaultBusy = "vault_busy", 409;
    /// The vault has no checkpoint of that name.
    CheckpointNotFound = "checkpoint_not_found", 404;
    /// The vault has a checkpoint of that name already.
    CheckpointExists = "checkpoint_exists", 409;
    /// The history has no such version, or there is nothing to undo.
    VersionNotFound = "version_not_found", 404;
    /// No session has that id.
    SessionNotFound = "session_not_found", 404;
    /// Another session owns the workspace.
    NotOwner = "not_owner", 403;
    /// The quota of the session or of the installation would be exceeded.
    QuotaExceeded = "quota_exceeded", 429;
    /// Too many calls in too short a time.
    RateLimited = "rate_limited", 429;
    /// The request has no valid token.
    Unauthorized = "unauthorized", 401;
    /// The idempotency key was used for another request, or its request is still running.
    IdempotencyConflict = "idempotency_conflict", 409;
    /// No background command of the workspace has that number.
    JobNotFound = "job_not_found", 404;
    /// There is no such file or directory in the workspace.
    FileNotFound = "file_not_found", 404;
    /// The path, or a part of it, is not a directory.
    NotADirectory = "not_a_directory", 400;
    /// The path is not a regular file.
    NotAFile = "not_a_file", 400;
    /// The directory has entries.
    DirectoryNotEmpty = "directory_not_empty", 409;
    /// The path exists already.
    FileExists = "file_exists", 409;
    /// The file is not text.
    FileNotText = "file_not_text", 400;
    /// The file, or the part of it that was asked for, is too large for this.
    FileTooLarge = "file_too_large", 413;
    /// The text to replace was not found, or was found more than once.
    EditMismatch = "edit_mismatch", 400;
    /// There is no such note, folder of notes, or version of a note.
    NoteNotFound = "note_not_found", 404;
    /// The note has changed since it was read.
    NoteConflict = "note_conflict", 409;
    /// The workspace has no user of that name.
    UserNotFound = "user_not_found", 404;
    /// Agents may not use the path on the host.
    PathNotAllowed = "path_not_allowed", 403;
    /// The operator does not allow agents to do this.
    NotPermitted = "not_permitted", 403;
    /// No secret has that name.
    SecretNotFound = "secret_not_found", 404;
    /// The operator has to approve of this first.
    ApprovalRequired = "approval_required", 403;
    /// There is no request for approval with that id.
    ApprovalNotFound = "approval_not_found", 404;
    /// The request for approval was answered otherwise, or has expired.
    ApprovalClosed = "approval_closed", 409;
    /// The port is in use, reserved or not allowed.
    PortUnavailable = "port_unavailable", 409;
    /// Workspaces cannot be given a network here.
    NetworkUnavailable = "network_unavailable", 400;
    /// Git refused or failed.
    GitFailed = "git_failed", 422;
    /// The directory is not a git repository.
    NotARepository = "not_a_repository", 400;
    /// The daemon could not be reached or started.
    DaemonUnavailable = "daemon_unavailable", 503;
    /// The operation is not supported here.
    Unsupported = "unsupported", 400;
    /// Stored data is damaged.
    DataDamaged = "data_damaged", 500;
    /// The disk is full.
    DiskFull = "disk_full", 507;
    /// The storage of the disks is unavailable: a pool was exported, or a device did not appear.
    StorageUnavailable = "storage_unavailable", 500;
    /// The operating system refused.
    PermissionDenied = "permission_denied", 403;
    /// A file could not be read or written.
    Io = "io", 500;
    /// The operation was cancelled.
    Cancelled = "cancelled", 500, exit 130;
    /// A bug in agentiso.
    Internal = "internal", 500;
}

impl Code {
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

impl JsonSchema for Code {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes: Vec<&str> = Self::all().iter().map(|code| code.as_str()).collect();
        json_schema!({
            "type": "string",
            "enum": codes,
            "description": "What went wrong. The text of a message may change, its code does not."
        })
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
    fn every_code_is_written_in_snake_case_and_has_an_error_status_and_a_meaning() {
        for code in Code::all() {
            let name = format!("{code:?}").to_lowercase();
            assert_eq!(code.as_str().replace('_', ""), name);
            assert!((400..600).contains(&code.http_status()), "{code}");
            assert!(code.meaning().ends_with('.'), "{code}");
        }
    }

    #[test]
    fn a_full_disk_is_told_from_other_io_errors() {
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(28)), Code::DiskFull);
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(13)), Code::PermissionDenied);
        assert_eq!(Code::of_io(&std::io::Error::from_raw_os_error(5)), Code::Io);
    }
}
