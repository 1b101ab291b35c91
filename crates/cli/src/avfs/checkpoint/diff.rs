//! `avfs checkpoint diff`.

use agentiso_core::Failure;
use agentiso_vfs::{ChangeOptions, Endpoint, StateRef};
use clap::Args;

use crate::avfs::context::Context;
use crate::avfs::history::{ChangeList, show_changes};

/// Flags of `checkpoint diff`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs --vault work checkpoint diff before-change\n  \
                  avfs --vault work checkpoint diff monday tuesday")]
pub struct Diff {
    /// The state before: a checkpoint, or a revision such as r17
    pub before: StateRef,
    /// The state after
    #[arg(default_value = "now")]
    pub after: StateRef,
    /// Most changes to show
    #[arg(long, short, value_name = "N", default_value_t = 1000)]
    pub limit: usize,
}

/// Compares two states.
pub fn diff(context: &Context, flags: Diff) -> Result<u8, Failure> {
    let vault = context.vault()?;
    let end = |state| Endpoint::Vault { vault: vault.clone(), state };
    let options = ChangeOptions { limit: flags.limit, ..ChangeOptions::default() };
    let changes = context.vaults()?.diff(&end(flags.before), &end(flags.after), &options)?;
    let list = ChangeList::from(&changes);
    context.shown.result(&list, |out| show_changes(out, &list))?;
    Ok(0)
}
