//! How the link fails.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agentiso_proto::{ErrorKind, GuestError, MAX_PAYLOAD, TreeError, VERSION_MAX, VERSION_MIN};

use crate::{Code, Explain};

/// An error of a request to a guest. Cheap to clone, because the end of a session is reported to all its users.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// The agent refused or failed the request; the session continues.
    #[error("the guest could not do this: {}", describe(.0))]
    Guest(GuestError),
    /// The byte stream ended.
    #[error("the link to the guest is closed")]
    Closed(#[source] Arc<io::Error>),
    /// What the guest sent made no sense, so the session was ended.
    #[error("the guest broke the link's protocol: {0}")]
    Violation(String),
    /// The two sides speak no common version of the protocol.
    #[error("the guest speaks protocol versions {min} to {max}, agentiso {VERSION_MIN} to {VERSION_MAX}")]
    Version {
        /// Oldest version the guest speaks.
        min: u16,
        /// Newest version the guest speaks.
        max: u16,
    },
    /// The guest's agent does not know this request yet.
    #[error(
        "this machine was started by an older agentiso, whose agent cannot do this \
         (it speaks protocol version {version}, this needs {needed})"
    )]
    OldAgent {
        /// The version of the session.
        version: u16,
        /// The first version that has the request.
        needed: u16,
    },
    /// The guest did not answer a request in time; the session continues.
    #[error("the guest did not answer for {} s while {doing}", limit.as_secs())]
    Silent {
        /// The request.
        doing: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The request does not fit into one message.
    #[error("the request takes {bytes} bytes and the guest link carries at most {MAX_PAYLOAD}")]
    TooLarge {
        /// Its size when encoded.
        bytes: usize,
    },
    /// The request could not be put into bytes.
    #[error("the request cannot be encoded: {0}")]
    Unencodable(String),
    /// The guest's answer is longer than the host is willing to hold.
    #[error("the guest's answer is longer than {limit} bytes")]
    AnswerTooLarge {
        /// The most the host takes.
        limit: usize,
    },
    /// The command has ended and takes no more input.
    #[error("the command ended before it took all of its input")]
    InputEnded,
    /// The connection in the guest has ended and takes no more data.
    #[error("the connection in the guest ended before it took everything")]
    Disconnected,
    /// A tree entry cannot be sent.
    #[error("the tree cannot be sent to the guest")]
    Tree(#[source] TreeError),
    /// A file's content is not as long as its entry announced.
    #[error("a file changed its size while it was sent to the guest ({0} bytes off)")]
    TreeContent(u64),
}

impl LinkError {
    /// The byte stream ended for this reason.
    pub fn closed(kind: io::ErrorKind, why: &'static str) -> Self {
        Self::Closed(Arc::new(io::Error::new(kind, why)))
    }
}

impl Explain for LinkError {
    fn code(&self) -> Code {
        match self {
            Self::Guest(error) => match error.kind {
                ErrorKind::NoSpace => Code::DiskFull,
                // What was asked for makes no sense there, or names what is not there.
                ErrorKind::Invalid | ErrorKind::NotFound => Code::InvalidArgument,
                ErrorKind::Denied => Code::PermissionDenied,
                ErrorKind::Exists => Code::FileExists,
                ErrorKind::Busy => Code::WorkspaceBusy,
                ErrorKind::Unsupported => Code::Unsupported,
                ErrorKind::Cancelled | ErrorKind::Io => Code::GuestFailed,
            },
            Self::InputEnded | Self::Disconnected => Code::GuestFailed,
            Self::OldAgent { .. } => Code::Unsupported,
            Self::AnswerTooLarge { .. } => Code::InvalidArgument,
            Self::Closed(_) => Code::VmCrashed,
            Self::Silent { .. } => Code::Timeout,
            Self::Violation(_) | Self::Version { .. } => Code::ProtocolViolation,
            Self::TooLarge { .. } | Self::Tree(_) => Code::InvalidArgument,
            Self::TreeContent(_) => Code::Io,
            Self::Unencodable(_) => Code::Internal,
        }
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::Guest(error) if error.kind == ErrorKind::NoSpace => {
                "remove files in the guest or give it a larger disk"
            }
            Self::Guest(error) if error.kind == ErrorKind::Busy => {
                "try again when the machine is no longer held, or when its processes have finished their disk work"
            }
            Self::Guest(_) | Self::InputEnded | Self::Disconnected | Self::Unencodable(_) => return None,
            Self::Closed(_) => "see the guest's console log for why it ended, then start it again",
            Self::Silent { .. } => {
                "the machine may be stuck: look at its log, and stop it with force if it does not recover"
            }
            Self::Violation(_) => "do not trust this guest any more: discard it and start a fresh one",
            Self::Version { .. } => "build the template again with this version of agentiso",
            Self::OldAgent { .. } => {
                "stop the machine and start it again: it then gets the agent of this agentiso"
            }
            Self::TooLarge { .. } => "pass long content on standard input or in a file",
            Self::AnswerTooLarge { .. } => "ask for less at once, for example for a directory further down",
            Self::Tree(_) => "rename or leave out the entry",
            Self::TreeContent(_) => "try again when nothing writes to the tree",
        };
        Some(remedy.to_owned())
    }
}

/// The agent's words, and the kernel's if they are not in them already.
fn describe(error: &GuestError) -> String {
    match error.errno.map(|errno| io::Error::from_raw_os_error(errno).to_string()) {
        Some(kernel) if !error.message.contains(strip_number(&kernel)) => {
            format!("{}: {}", error.message, strip_number(&kernel))
        }
        _ => error.message.clone(),
    }
}

/// "File exists (os error 17)" as people say it.
fn strip_number(text: &str) -> &str {
    text.split(" (os error").next().unwrap_or(text)
}
