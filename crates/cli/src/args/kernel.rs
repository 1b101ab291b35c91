//! Flags of `image kernel`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Verbs of `image kernel`.
#[derive(Debug, Subcommand)]
pub enum KernelVerb {
    /// Build a small guest kernel from the distribution's source, test it, and use it for new machines
    Build(BuildKernel),
    /// List kernels
    #[command(after_help = "Example:\n  agentiso image kernel ls")]
    Ls,
    /// Show the kernel that machines start with
    #[command(after_help = "Example:\n  agentiso image kernel info")]
    Info,
    /// Choose the kernel that machines start with
    #[command(after_help = "Example:\n  agentiso image kernel use packaged")]
    Use {
        /// Kernel to use
        kernel: WhichKernel,
    },
}

/// Flags of `image kernel build`.
#[derive(Args, Debug)]
#[command(
    after_help = "The build takes 10 to 30 minutes of CPU time and 3 GiB of temporary disk space. An interrupted \
                        build continues where it stopped.\n\nExamples:\n  agentiso image kernel build\n  \
                        agentiso image kernel build --jobs 8 --source linux-6.12.tar.xz"
)]
pub struct BuildKernel {
    /// Number of parallel compiler processes [default: one per CPU]
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: Option<u32>,
    /// Build this source instead of the distribution's package
    #[arg(long, value_name = "FILE.tar.xz")]
    pub source: Option<PathBuf>,
}

/// A kernel that can be selected.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum WhichKernel {
    /// The distribution's kernel
    Packaged,
    /// The kernel that was built here
    Built,
}
