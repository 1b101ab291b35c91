//! Errors of building a kernel.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain};

use crate::kernel::{DebError, ElfError, KernelError};
use crate::tools::ToolError;

/// Why a kernel could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Programs or headers are not installed.
    #[error("a kernel cannot be built here yet: missing is {}", missing.join(", "))]
    ToolsMissing {
        /// What is missing.
        missing: Vec<&'static str>,
        /// The Debian packages that have it.
        packages: Vec<&'static str>,
    },
    /// The disk is too small.
    #[error("building a kernel takes {} MiB in {}, where {} MiB are free", needed >> 20, path.display(), free >> 20)]
    NoRoom {
        /// The needed space.
        needed: u64,
        /// The free space.
        free: u64,
        /// Where.
        path: PathBuf,
    },
    /// The package sources have no kernel source.
    #[error("the package sources offer no kernel source (linux-source-*)")]
    NoSource,
    /// The package could not be fetched.
    #[error("the kernel's source could not be fetched: {said}")]
    Fetch {
        /// The last lines of the program.
        said: String,
    },
    /// The package could not be unpacked.
    #[error("the package {} cannot be used", path.display())]
    Package {
        /// The package.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: DebError,
    },
    /// An archive does not hold a kernel's source.
    #[error("{} is not the source of a kernel: {reason}", path.display())]
    NotSource {
        /// The archive.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The source does not support a required setting.
    #[error("a kernel of this source would lack {}", missing.join(", "))]
    Settings {
        /// The settings it does not take.
        missing: Vec<String>,
    },
    /// The compiler failed.
    #[error("the kernel could not be compiled: {said}")]
    Compile {
        /// The last lines.
        said: String,
        /// All lines.
        log: PathBuf,
    },
    /// The build produced no kernel.
    #[error("what was compiled is not a kernel")]
    Elf(#[from] ElfError),
    /// The built kernel cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
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
    /// It was cancelled.
    #[error("the build was cancelled")]
    Cancelled,
}

impl BuildError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }
}

impl Explain for BuildError {
    fn code(&self) -> Code {
        match self {
            Self::ToolsMissing { .. } => Code::ToolMissing,
            Self::NoRoom { .. } => Code::DiskFull,
            Self::NoSource | Self::Fetch { .. } => Code::FetchFailed,
            Self::Package { source: DebError::Io(source), .. } | Self::Io { source, .. } => {
                Code::of_io(source)
            }
            Self::NotSource { .. } => Code::InvalidArgument,
            Self::Package { .. } | Self::Settings { .. } | Self::Compile { .. } | Self::Elf(_) => {
                Code::ToolFailed
            }
            Self::Kernel(error) => error.code(),
            Self::Tool(error) => error.code(),
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::ToolsMissing { packages, .. } => {
                Some(format!("install it: sudo apt-get install {}", packages.join(" ")))
            }
            Self::NoRoom { .. } => {
                Some("free some disk space, or set AGENTISO_HOME to a larger disk".to_owned())
            }
            Self::NoSource | Self::Fetch { .. } => Some(
                "check the machine's package sources and network, or give a source with --source FILE.tar.xz"
                    .to_owned(),
            ),
            Self::Compile { log, .. } => Some(format!(
                "read {}; when the cause is gone, the same command goes on where it stopped",
                log.display()
            )),
            Self::Settings { .. } => Some("give another source with --source FILE.tar.xz".to_owned()),
            Self::Tool(error) => error.remedy(),
            Self::Io { .. } | Self::Package { .. } if self.code() == Code::DiskFull => {
                Some("free some disk space; the same command goes on where it stopped".to_owned())
            }
            _ => None,
        }
    }
}
