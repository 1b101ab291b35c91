//! Errors of the image store.

use std::io;
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Explain, ImageName};

use crate::debian::Recipe;
use crate::ext4::Ext4Error;

/// Why an operation on the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No image has that name.
    #[error("there is no image {name:?}{}", known_in_words(known))]
    NotFound {
        /// The requested name.
        name: String,
        /// The existing names.
        known: Vec<String>,
    },
    /// The name is taken.
    #[error("there is an image {name:?} already")]
    Exists {
        /// The name.
        name: String,
    },
    /// `image.json` cannot be understood.
    #[error("the image {name:?} cannot be used: {reason}")]
    Damaged {
        /// The image.
        name: String,
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
    /// The image's file system could not be resized.
    #[error("could not make a {} MiB disk of the image {name:?}", bytes >> 20)]
    Sizing {
        /// The image.
        name: String,
        /// The size asked for.
        bytes: u64,
        /// Why not.
        #[source]
        source: Ext4Error,
    },
}

impl StoreError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    pub(super) fn exists(name: &ImageName) -> Self {
        Self::Exists { name: name.to_string() }
    }
}

impl Explain for StoreError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ImageNotFound,
            Self::Exists { .. } => Code::ImageExists,
            Self::Damaged { .. } => Code::ImageRejected,
            Self::Io { source, .. } => Code::of_io(source),
            Self::Sizing { source, .. } => source.code(),
        }
    }

    fn remedy(&self) -> Option<String> {
        match self {
            Self::NotFound { name, known } => {
                let get = match name.parse::<Recipe>() {
                    Ok(recipe) => format!("add it on the host with `agentiso image build {recipe}`"),
                    Err(_) => format!(
                        "add it on the host with `agentiso image pull {name}` (from a registry), `agentiso image \
                         import` (an archive) or `agentiso image build` (a recipe)"
                    ),
                };
                Some(match agentiso_core::nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean {near:?}? {get}"),
                    None => get,
                })
            }
            Self::Exists { .. } => Some("choose another name, or replace it with --replace".to_owned()),
            Self::Damaged { name, .. } => Some(format!("remove it and import it again: {name}")),
            Self::Io { source, .. } if Code::of_io(source) == Code::DiskFull => {
                Some("free some disk space and try again".to_owned())
            }
            Self::Io { .. } => None,
            Self::Sizing { source, .. } => source.remedy(),
        }
    }
}

fn known_in_words(known: &[String]) -> String {
    if known.is_empty() {
        "; there are none yet".to_owned()
    } else {
        format!("; available images: {}", known.join(", "))
    }
}
