//! `agentiso init`: everything a first machine needs.

use std::io::Write;
use std::sync::Arc;

use agentiso_core::Failure;
use agentiso_core::progress::Progress;
use agentiso_runtime::{Installation, ZpoolRequest, use_zpool};

use crate::args;
use crate::output::Output;

/// Prepares everything and says what there is.
pub async fn init(installation: &Installation, flags: args::Init, output: Output) -> Result<u8, Failure> {
    let image = match flags.image {
        Some(name) => name.parse()?,
        None => installation.config.defaults.image_name()?,
    };
    let progress: Arc<dyn Progress> = output.progress();
    let request = ZpoolRequest { pool: flags.zfs_pool, path: flags.pool_path, size_gb: flags.pool_size };
    let installation = match request.is_empty() {
        true => installation.clone(),
        false => {
            progress.step("Pool", None);
            let dataset = use_zpool(&installation.paths, &request)?;
            progress.done(&format!("disks are stored in {dataset}"));
            Installation::open(installation.paths.clone())?
        }
    };
    let prepared = super::interruptible(installation.init(&image, &progress)).await?;
    drop(progress);
    output.result(&prepared, |out| {
        writeln!(
            out,
            "Ready: machines start from {} under {}.",
            prepared.image, prepared.acceleration.accel
        )?;
        if prepared.is_default {
            return writeln!(out, "Try: agentiso run -- uname -a");
        }
        let (image, config) = (&prepared.image, prepared.config.display());
        writeln!(out, "Try: agentiso run --image {image} -- uname -a")?;
        writeln!(out, "To use it by default, set image = \"{image}\" under [defaults] in {config}.")
    })?;
    Ok(0)
}
