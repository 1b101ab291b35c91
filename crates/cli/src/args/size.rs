//! What a machine is made of.

use clap::Args;

/// Image and size of a machine.
#[derive(Args, Debug)]
pub struct Size {
    /// Image to start from [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME")]
    pub image: Option<String>,
    /// Virtual processors
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory in MiB
    #[arg(long, short, value_name = "MIB")]
    pub memory: Option<u32>,
    /// Size of the root file system in GiB
    #[arg(long, short, value_name = "GIB")]
    pub disk: Option<u32>,
    /// Boots a kernel instead of cloning a template
    #[arg(long)]
    pub cold: bool,
}
