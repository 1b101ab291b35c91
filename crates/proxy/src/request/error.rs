//! Why a request is refused before anything is looked at.

use agentiso_core::{Code, Explain};

/// Why a request is refused before anything is looked at.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// There is nothing to run.
    #[error("there is no command to run")]
    NoCommand,
    /// The command is too long.
    #[error("the command is longer than {max} bytes")]
    TooLong {
        /// The limit.
        max: usize,
    },
    /// A text has a NUL character.
    #[error("the {what} contains a NUL character")]
    Nul {
        /// What the text is.
        what: &'static str,
    },
    /// The directory is not one of the vault.
    #[error("the directory {cwd:?} {reason}")]
    Cwd {
        /// The directory as it was given.
        cwd: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A variable is malformed.
    #[error("{variable:?} is not a variable: {reason}")]
    Variable {
        /// The variable as it was given, without its value.
        variable: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A time limit is malformed.
    #[error("{given:?} is not a time limit")]
    Timeout {
        /// The time limit as it was given.
        given: String,
    },
}

impl Explain for RequestError {
    fn code(&self) -> Code {
        Code::InvalidArgument
    }

    fn remedy(&self) -> Option<String> {
        let remedy = match self {
            Self::NoCommand => "give a program and its arguments after --, or a line with --shell",
            Self::TooLong { .. } => "write a script into the vault and run that",
            Self::Nul { .. } => "remove it",
            Self::Cwd { .. } => "give a directory of the vault; / is its top",
            Self::Variable { .. } => "give NAME=VALUE, or NAME to pass on its present value",
            Self::Timeout { .. } => "give milliseconds, or a number with ms, s, m or h; 0 is no limit",
        };
        Some(remedy.to_owned())
    }
}
