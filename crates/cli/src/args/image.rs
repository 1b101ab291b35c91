//! Flags of `image`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::KernelVerb;
use super::values::{Names, images};

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
