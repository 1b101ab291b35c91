//! Flags of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::KernelVerb;
use super::values::{Names, images, workspaces};

/// Verbs of `image`.
#[derive(Debug, Subcommand)]
pub enum ImageVerb {
    /// Build an image from Debian packages
    #[command(after_help = "Example:\n  agentiso image build debian")]
    Build {
        /// Recipe to build
        #[arg(value_name = "RECIPE")]
        recipe: String,
        /// Name of the image.
        #[command(flatten)]
        new: NewImage,
    },
    /// Import a tarball, a directory, or an OCI or docker archive
    #[command(after_help = "Example:\n  agentiso image import rootfs.tar.zst --name tools")]
    Import {
        /// The tarball, directory or archive
        source: PathBuf,
        /// Name of the image.
        #[command(flatten)]
        new: NewImage,
    },
    /// Pull an OCI image from a registry
    #[command(after_help = "Example:\n  agentiso image pull alpine:3.20")]
    Pull {
        /// Reference: name, name:tag, registry/name:tag or name@digest
        reference: String,
        /// Name of the image.
        #[command(flatten)]
        new: NewImage,
    },
    /// Create an image from the current files of a workspace
    #[command(
        after_help = "A running workspace is paused for a moment. Memory, variables and snapshots are \
                            not part of an image.\n\nExample:\n  agentiso image commit web web-ready"
    )]
    Commit {
        /// The workspace: its name, its id, or at least 6 digits of its short id
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Name of the image
        name: String,
        /// Replace an existing image of that name
        #[arg(long)]
        replace: bool,
    },
    /// Write an image to a file that `image import` and other tools can read
    #[command(after_help = "Examples:\n  agentiso image export debian debian.tar\n  \
                            agentiso image export web --format oci web.tar\n  \
                            agentiso image export debian - | zstd > debian.tar.zst")]
    Export {
        /// The image
        #[arg(add = images())]
        name: String,
        /// File to write; - is standard output
        file: PathBuf,
        /// File format: a tarball of the files, or an OCI archive, which also has the environment and command
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// List images
    #[command(visible_alias = "list", after_help = "Example:\n  agentiso image ls")]
    Ls {
        /// Output format.
        #[command(flatten)]
        only: Names,
    },
    /// Show details of an image
    #[command(after_help = "Example:\n  agentiso image info debian")]
    Info {
        /// The image
        #[arg(add = images())]
        name: String,
    },
    /// Build, list and choose guest kernels
    #[command(subcommand)]
    Kernel(KernelVerb),
    /// Remove images
    #[command(visible_alias = "delete", after_help = "Example:\n  agentiso image rm alpine")]
    Rm {
        /// The images
        #[arg(required = true, add = images())]
        names: Vec<String>,
    },
}

/// Flags of all verbs that create an image.
#[derive(Args, Debug)]
pub struct NewImage {
    /// Name of the image [default: derived from the source]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Replace an existing image of that name
    #[arg(long)]
    pub replace: bool,
}

/// File format of an exported image.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ExportFormat {
    /// A tarball of its files
    #[default]
    Tar,
    /// An OCI archive
    Oci,
}
