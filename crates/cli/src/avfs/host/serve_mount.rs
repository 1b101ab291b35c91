//! The server of a mount, started by `avfs mount`.

use std::path::PathBuf;

use agentiso_core::Failure;
use clap::Args;

use crate::avfs::context::Context;

/// Flags of `serve-mount`.
#[derive(Args, Debug)]
pub struct ServeMount {
    /// The record of the mount
    pub record: PathBuf,
}

/// Serves a mount until it is unmounted.
pub fn serve_mount(_: &Context, flags: ServeMount) -> Result<u8, Failure> {
    agentiso_proxy::serve_mount(&flags.record)?;
    Ok(0)
}
