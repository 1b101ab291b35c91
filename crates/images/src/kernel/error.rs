//! Errors of finding and preparing kernels.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

use super::{BzImageError, DebError, ElfError};
use crate::tools::ToolError;

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No source of a kernel worked.
    #[error("no usable guest kernel was found: {}", tried.join("; "))]
    NotFound {
        /// The sources and their errors.
        tried: Vec<String>,
    },
    /// A boot image cannot be used.
    #[error("the kernel {} cannot be used", path.display())]
    Image {
        /// The image.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: BzImageError,
    },
    /// An ELF kernel cannot be used.
    #[error("the kernel {} cannot be used", path.display())]
    Elf {
        /// The image.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ElfError,
    },
    /// A kernel without a valid version.
    #[error("the kernel {} does not say which version it is", path.display())]
    Version {
        /// The image.
        path: PathBuf,
    },
    /// A package cannot be used.
    #[error("the package {} cannot be used", path.display())]
    Package {
        /// The package.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: DebError,
    },
    /// The package source has no suitable kernel.
    #[error("the package sources offer no kernel package ({wanted})")]
    NoPackage {
        /// What was looked for.
        wanted: String,
    },
    /// No kernel was built here.
    #[error("no kernel was built here yet")]
    NoneBuilt,
    /// The recorded description is damaged.
    #[error("{} is damaged: {reason}", path.display())]
    Record {
        /// The description.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file could not be read or written.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// What we were doing.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl KernelError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl Explain for KernelError {
    fn code(&self) -> Code {
        match self {
            Self::Io { source, .. } if source.kind() != io::ErrorKind::NotFound => Code::of_io(source),
            Self::Package { source: DebError::Io(source), .. } if Code::of_io(source) == Code::DiskFull => {
                Code::DiskFull
            }
            Self::Tool(error) => error.code(),
            _ => Code::KernelNotFound,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } | Self::NoPackage { .. } => Some(
                "connect the machine to its package source, or set `kernel` in the configuration to a \
                 vmlinuz file"
                    .to_owned(),
            ),
            Self::NoneBuilt => Some("build one: agentiso image kernel build".to_owned()),
            Self::Image { .. } | Self::Elf { .. } | Self::Version { .. } => {
                Some("point `kernel` in the configuration to another vmlinuz file, or remove it".to_owned())
            }
            Self::Record { path, .. } => {
                path.parent().map(|directory| format!("remove {} and try again", directory.display()))
            }
            Self::Tool(error) => error.remedy(),
            Self::Package { .. } | Self::Io { .. } if self.code() == Code::DiskFull => {
                Some("free some disk space and try again".to_owned())
            }
            Self::Package { .. } | Self::Io { .. } => None,
        }
    }
}
