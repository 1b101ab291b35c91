//! Why a configuration was refused.

use std::path::PathBuf;

use agentiso_core::{Code, Explain};

/// A configuration file that cannot be used, with the place to look at.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file was named by the user and does not exist.
    #[error("there is no configuration file {}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("could not read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// What the parser says.
        message: String,
    },
    /// Nobody knows that key.
    #[error("{}:{line}: unknown key {key:?}", path.display())]
    UnknownKey {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// The key as written, with its section.
        key: String,
        /// The known key it resembles most.
        nearest: Option<String>,
    },
    /// The key is known but its value cannot be used.
    #[error("{}:{line}: {key}: {message}", path.display())]
    BadValue {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// The key with its section.
        key: String,
        /// What is wrong with the value.
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
            Self::Missing { .. } => Some("check the path, or leave it out to use the defaults".to_owned()),
            Self::Read { .. } => Some("make the file readable for the user that runs agentiso".to_owned()),
            Self::Syntax { line, .. } => Some(format!("correct line {line}; the file is TOML")),
            Self::UnknownKey { nearest: Some(nearest), .. } => Some(format!("did you mean {nearest:?}?")),
            Self::UnknownKey { nearest: None, .. } => {
                Some("remove it; docs/configuration.md lists every key".to_owned())
            }
            Self::BadValue { line, .. } => {
                Some(format!("correct line {line}; docs/configuration.md says what each key takes"))
            }
        }
    }
}
