//! Errors of building from packages.

use std::io;
use std::path::PathBuf;

use agentiso_core::{Code, Explain};

use crate::tools::ToolError;

/// Why an image could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DebianError {
    /// There is no such recipe.
    #[error("there is no recipe {name:?}; known are {}", known.join(", "))]
    UnknownRecipe {
        /// The requested name.
        name: String,
        /// The available recipes.
        known: Vec<&'static str>,
    },
    /// A requirement for building in a user namespace is missing.
    #[error("an ordinary user cannot build images here yet: {}", missing.join(", and "))]
    NoNamespace {
        /// What is missing.
        missing: Vec<String>,
        /// What to run, in this order.
        commands: Vec<String>,
    },
    /// A package source could not be reached or refused the request.
    #[error("the packages could not be fetched: {said}")]
    Fetch {
        /// The last lines of the program.
        said: String,
    },
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file could not be written.
    #[error("could not write {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It was cancelled.
    #[error("the build was cancelled")]
    Cancelled,
}

impl Explain for DebianError {
    fn code(&self) -> Code {
        match self {
            Self::UnknownRecipe { .. } => Code::InvalidArgument,
            Self::NoNamespace { .. } => Code::ToolMissing,
            Self::Fetch { .. } => Code::FetchFailed,
            Self::Tool(error) => error.code(),
            Self::Io { source, .. } => Code::of_io(source),
            Self::Cancelled => Code::Cancelled,
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::UnknownRecipe { name, known } => agentiso_core::nearest(name, known.iter().copied())
                .map(|near| format!("did you mean {near:?}?")),
            Self::NoNamespace { commands, .. } => Some(format!("run: {}", commands.join(" && "))),
            Self::Fetch { .. } => Some("check the machine's package sources and network".to_owned()),
            Self::Tool(error) => error.remedy(),
            Self::Io { .. } | Self::Cancelled => None,
        }
    }
}
