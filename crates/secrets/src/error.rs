//! Why secrets cannot be read or stored.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

/// Secrets cannot be read or stored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// A file cannot be used.
    #[error("could not {what} {path}")]
    Io {
        /// What failed.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There are secrets and no key.
    #[error("the secrets cannot be decrypted: their key {0} is gone")]
    KeyGone(PathBuf),
    /// The key is not one, or others could read it.
    #[error("the key of the secrets {path} cannot be used: {what}")]
    Key {
        /// Where.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The secrets were changed, or sealed with another key.
    #[error("the secrets in {0} are damaged, or were encrypted with another key")]
    Damaged(PathBuf),
    /// The host has no randomness.
    #[error("the host has no random numbers")]
    Randomness,
    /// No secret has the name.
    #[error("there is no secret '{0}'")]
    NotFound(String),
    /// There are too many.
    #[error("there can be at most {0} secrets")]
    TooMany(usize),
}

impl Explain for VaultError {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } => Code::of_io(source),
            Self::KeyGone(_) | Self::Key { .. } | Self::Damaged(_) => Code::DataDamaged,
            Self::Randomness => Code::Internal,
            Self::NotFound(_) => Code::SecretNotFound,
            Self::TooMany(_) => Code::InvalidArgument,
        }
    }

    fn remedy(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } => "check that the data directory is there and writable".to_owned(),
            Self::KeyGone(_) | Self::Damaged(_) => {
                "restore both files of the directory from a backup, or remove the directory and set the secrets again"
                    .to_owned()
            }
            Self::Key { path, .. } => format!("make it readable by its owner alone: chmod 600 {}", path.display()),
            Self::Randomness => return None,
            Self::NotFound(_) => "`agentiso secret ls` lists the secrets; `agentiso secret set` stores one".to_owned(),
            Self::TooMany(_) => "remove some with `agentiso secret rm`".to_owned(),
        })
    }
}
