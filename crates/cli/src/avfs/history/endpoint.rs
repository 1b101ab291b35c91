//! States to compare and merge, as they are written on the command line.

use std::path::PathBuf;

use agentiso_core::{Code, Explain, Failure};
use agentiso_vfs::{Endpoint, StateRef};

use crate::avfs::context::Context;

/// Reads a state: `now`, `r17` or a checkpoint of the vault in use; `VAULT`; `VAULT@STATE`; `host:DIR`.
pub fn endpoint(context: &Context, given: &str) -> Result<Endpoint, Failure> {
    if let Some(directory) = given.strip_prefix("host:") {
        let directory = PathBuf::from(directory).canonicalize().map_err(|error| {
            Failure::new(
                Code::InvalidArgument,
                format!("could not find the directory {directory:?}: {error}"),
            )
        })?;
        return Ok(Endpoint::Host(directory));
    }
    if let Some((vault, state)) = given.split_once('@') {
        let vault = if vault.is_empty() { context.vault()? } else { vault.to_owned() };
        return Ok(Endpoint::state(&vault, state.parse()?));
    }
    let Some(vault) = context.named()? else { return Ok(Endpoint::now(given)) };
    match given.parse::<StateRef>() {
        Ok(StateRef::Checkpoint(name)) => match context.vaults()?.checkpoint(&vault, &name) {
            Ok(_) => Ok(Endpoint::state(&vault, StateRef::Checkpoint(name))),
            Err(error) if error.code() == Code::CheckpointNotFound => Ok(Endpoint::now(given)),
            Err(error) => Err(error.into()),
        },
        Ok(state) => Ok(Endpoint::state(&vault, state)),
        // Names of vaults can be longer than those of checkpoints.
        Err(_) => Ok(Endpoint::now(given)),
    }
}
