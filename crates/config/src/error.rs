//! Errors of a configuration file, with file and line.

use std::path::PathBuf;

use agentiso_core::{Code, Explain};

/// Why a configuration file was rejected.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The user named the file, but it does not exist.
    #[error("the configuration file {} does not exist", path.display())]
    Missing {
        /// The configuration file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("could not read the configuration file {}", path.display())]
    Read {
        /// The configuration file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        cause: std::io::Error,
    },
    /// The file is not valid TOML.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The configuration file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The key does not exist.
    #[error("{}:{line}: unknown key {key:?}", path.display())]
    UnknownKey {
        /// The configuration file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The key as written, with its section.
        key: String,
        /// The most similar key.
        nearest: Option<String>,
    },
    /// The value of a key is invalid.
    #[error("{}:{line}: {key}: {message}", path.display())]
    BadValue {
        /// The configuration file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The key with its section.
        key: String,
        /// Why the value is invalid.
        message: String,
    },
}

impl Explain for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::Read { cause, .. } => Code::of_io(cause),
            _ => Code::InvalidConfig,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::Missing { .. } => Some("check the path, or omit it to use the defaults".to_owned()),
            Self::Read { .. } => Some("make the file readable for the user that runs agentiso".to_owned()),
            Self::Syntax { line, .. } => Some(format!("correct line {line}; the file is TOML")),
            Self::UnknownKey { nearest: Some(nearest), .. } => Some(format!("did you mean {nearest:?}?")),
            Self::UnknownKey { nearest: None, .. } => {
                Some("remove it; docs/configuration.md lists every key".to_owned())
            }
            Self::BadValue { line, .. } => {
                Some(format!("correct line {line}; docs/configuration.md describes the values of each key"))
            }
        }
    }
}
