//! Image and size of a machine.

use clap::Args;

use super::quantity::{gibibytes, mebibytes};
use super::values::images;

/// Image and size of a machine.
#[derive(Args, Debug)]
pub struct Size {
    /// Image to start from [default: the configured one, debian]
    #[arg(long, short, value_name = "NAME", add = images())]
    pub image: Option<String>,
    /// Virtual CPUs [default: 2 with KVM, 1 with emulation]
    #[arg(long, value_name = "N")]
    pub vcpus: Option<u32>,
    /// Memory: 512M, 2G; a plain number is in MiB
    #[arg(long, short, value_name = "SIZE", value_parser = mebibytes)]
    pub memory: Option<u32>,
    /// Size of the root file system: 20G; a plain number is in GiB
    #[arg(long, short, value_name = "SIZE", value_parser = gibibytes)]
    pub disk: Option<u32>,
    /// Boot a kernel instead of cloning a template
    #[arg(long)]
    pub cold: bool,
}
