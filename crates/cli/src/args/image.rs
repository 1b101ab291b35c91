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
        /// What to build
        #[arg(value_name = "RECIPE")]
        recipe: String,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// Import a tarball, a directory, or an OCI or docker archive
    #[command(after_help = "Example:\n  agentiso image import rootfs.tar.zst --name tools")]
    Import {
        /// The tarball, directory or archive
        source: PathBuf,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// Pull an OCI image from a registry
    #[command(after_help = "Example:\n  agentiso image pull alpine:3.20")]
    Pull {
        /// Reference: name, name:tag, registry/name:tag or name@digest
        reference: String,
        /// How the image is called.
        #[command(flatten)]
        new: NewImage,
    },
    /// Make an image of a workspace's files as they are now
    #[command(
        after_help = "The workspace may run: it stands still for an instant. Memory, variables and snapshots are \
                            not part of an image.\n\nExample:\n  agentiso image commit web web-ready"
    )]
    Commit {
        /// The workspace: its name, its id, or at least 6 digits of its short id
        #[arg(value_name = "WS", add = workspaces())]
        workspace: String,
        /// Name of the image
        name: String,
        /// Replaces an image of that name
        #[arg(long)]
        replace: bool,
    },
    /// Write an image to a file that `image import` and other tools read
    #[command(after_help = "Examples:\n  agentiso image export debian debian.tar\n  \
                            agentiso image export web --format oci web.tar\n  \
                            agentiso image export debian - | zstd > debian.tar.zst")]
    Export {
        /// The image
        #[arg(add = images())]
        name: String,
        /// The file; - for standard output
        file: PathBuf,
        /// What to write: a tarball of its files, or an OCI archive, which keeps its environment and command
        #[arg(long, value_enum, default_value_t)]
        format: ExportFormat,
    },
    /// List images
    #[command(visible_alias = "list", after_help = "Example:\n  agentiso image ls")]
    Ls {
        /// How it is printed.
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

/// Flags of everything that makes an image.
#[derive(Args, Debug)]
pub struct NewImage {
    /// Name of the image [default: made from where it comes from]
    #[arg(long, short)]
    pub name: Option<String>,
    /// Replaces an image of that name
    #[arg(long)]
    pub replace: bool,
}

/// What an image is written as.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum ExportFormat {
    /// A tarball of its files
    #[default]
    Tar,
    /// An OCI archive
    Oci,
}
