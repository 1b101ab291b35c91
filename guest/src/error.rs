//! Failures as the host hears of them.

use agentiso_proto::{ErrorKind, GuestError, TreeError};
use rustix::io::Errno;

/// What every operation of the agent comes to.
pub(crate) type Outcome<T> = Result<T, GuestError>;

/// The request makes no sense.
pub(crate) fn invalid(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Invalid, errno: None, message: message.into() }
}

/// There is no such thing.
pub(crate) fn not_found(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::NotFound, errno: None, message: message.into() }
}

/// It cannot be done here.
pub(crate) fn unsupported(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Unsupported, errno: None, message: message.into() }
}

/// It cannot be done now.
pub(crate) fn busy(message: impl Into<String>) -> GuestError {
    GuestError { kind: ErrorKind::Busy, errno: None, message: message.into() }
}

/// The host, or the end of its session, stopped it.
pub(crate) fn cancelled() -> GuestError {
    GuestError { kind: ErrorKind::Cancelled, errno: None, message: "cancelled".to_owned() }
}

/// The kernel refused: `what` was being done.
pub(crate) fn refused(what: impl AsRef<str>, errno: Errno) -> GuestError {
    GuestError {
        kind: kind_of(errno),
        errno: Some(errno.raw_os_error()),
        message: format!("{}: {errno}", what.as_ref()),
    }
}

/// The error of the last call into the C library.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Names what the kernel refused to do.
pub(crate) trait During<T> {
    /// Adds the description to a failure.
    fn during<S: AsRef<str>>(self, what: impl FnOnce() -> S) -> Outcome<T>;
}

impl<T> During<T> for rustix::io::Result<T> {
    fn during<S: AsRef<str>>(self, what: impl FnOnce() -> S) -> Outcome<T> {
        self.map_err(|errno| refused(what(), errno))
    }
}

/// A path for a message.
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

/// Turns what was refused for its form into a failure.
pub(crate) trait OrInvalid<T> {
    /// Names what was malformed.
    fn or_invalid(self, what: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T> OrInvalid<T> for Result<T, TreeError> {
    fn or_invalid(self, what: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| invalid(format!("{}: {error}", what())))
    }
}
