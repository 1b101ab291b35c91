//! The machine that flags ask for.

use agentiso_core::{Failure, ImageName, Resources};
use agentiso_runtime::Installation;

use crate::args::Size;

/// Image and size, with what the flags leave open filled in from the configuration.
pub fn size(installation: &Installation, flags: &Size) -> Result<(ImageName, Resources), Failure> {
    let defaults = &installation.config.defaults;
    let image = match &flags.image {
        Some(name) => name.parse()?,
        None => defaults.image_name()?,
    };
    let usual = defaults.resources();
    let resources = Resources {
        vcpus: flags.vcpus.unwrap_or(usual.vcpus),
        memory_mb: flags.memory.unwrap_or(usual.memory_mb),
        disk_gb: flags.disk.unwrap_or(usual.disk_gb),
    };
    resources.check(&installation.config.limits)?;
    Ok((image, resources))
}
