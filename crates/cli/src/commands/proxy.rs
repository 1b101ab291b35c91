//! `agentiso proxy`: commands in vaults, as `avfs proxy`.

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use clap::Args;

use crate::avfs::{self, ProxyVerb};
use crate::output::Output;

/// Flags of `proxy`.
#[derive(Args, Debug)]
pub struct Proxy {
    /// The vault to use [default: AVFS_VAULT, or that of the present directory]
    #[arg(long, global = true, value_name = "NAME")]
    pub vault: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub verb: ProxyVerb,
}

/// Runs a command in a vault.
pub async fn proxy(here: &Paths, flags: Proxy, output: Output) -> Result<u8, Failure> {
    avfs::proxy(here, flags.vault, flags.verb, output)
}
