//! Errors as they are reported to the host.

use agentiso_proto::{ErrorKind, GuestError, TreeError};
use rustix::io::Errno;

/// The result of every operation of the agent.
pub(crate) type Outcome<T> = Result<T, GuestError>;

/// The request is invalid.
pub(crate) fn invalid(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Invalid, errno: None, message: message.into() }
}

/// The named object does not exist.
pub(crate) fn not_found(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::NotFound, errno: None, message: message.into() }
}

/// The machine or kernel does not support the request.
pub(crate) fn unsupported(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Unsupported, errno: None, message: message.into() }
}

/// The request cannot be served at the moment.
pub(crate) fn busy(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Busy, errno: None, message: message.into() }
}

/// The host cancelled the request, or its session ended.
pub(crate) fn cancelled() -> GuestError {
    GuestError { kind: ErrorKind::Cancelled, errno: None, message: "cancelled".to_owned() }
}

/// A system call failed; `what` describes the operation, for example "opening the root".
pub(crate) fn refused(what: impl AsRef<str>, errno: Errno) -> GuestError {
    GuestError {
        kind: kind_of(errno),
        errno: Some(errno.raw_os_error()),
        message: format!("{}: {errno}", what.as_ref()),
    }
}

/// `errno` of the last libc call in this thread.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Adds a description to a failed system call.
pub(crate) trait During<T> {
    /// Converts a failure to a [`GuestError`] that says what was being done.
    fn during<S: AsRef<str>>(self, what: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during<S: AsRef<str>>(self, what: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|errno| refused(what(), errno))
    }
}

/// Formats a path for a message.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn kind_of(errno: Errno) -> ErrorKind {
    match errno {
        Errno::NOENT | Errno::NOTDIR => ErrorKind::NotFound,
        Errno::EXIST => ErrorKind::Exists,
        Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOEXEC | Errno::TXTBSY => ErrorKind::Denied,
        Errno::NOSPC | Errno::DQUOT => ErrorKind::NoSpace,
        Errno::INVAL | Errno::NAMETOOLONG | Errno::ISDIR | Errno::LOOP | Errno::NOTEMPTY | Errno::TOOBIG => {
            ErrorKind::Invalid
        }
        Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

/// Converts a failed check of a value into an "invalid" error.
pub(crate) trait OrInvalid<T> {
    /// Converts a failure; `what` names the invalid value.
    fn or_invalid(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> OrInvalid<T> for Result<T, TreeError> {
    fn or_invalid(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| invalid(format!("{}: {error}", what())))
    }
}
