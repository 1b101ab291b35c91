//! `avfs vault rm`.

use std::io::{self, BufRead, IsTerminal, Write};

use agentiso_core::{Code, Failure};
use agentiso_proxy::Mounting;
use agentiso_vfs::RemoveOptions;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::ui::Stream;

/// Flags of `vault rm`.
#[derive(Args, Debug)]
#[command(after_help = "At a terminal it asks first. Elsewhere it needs --yes or --json.\n\nExample:\n  \
                  avfs vault rm task-1 --yes")]
pub struct Remove {
    /// The vault
    pub name: String,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Remove it although commands run in it, or it is mounted
    #[arg(long, short)]
    pub force: bool,
}

/// A vault that was removed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Removed {
    /// Its name.
    pub deleted: String,
    /// Its id.
    pub id: String,
    /// Number of checkpoints that went with it.
    pub checkpoints: u64,
    /// Whether its forks still need its history.
    pub kept_for_forks: bool,
}

/// Removes a vault.
pub fn remove(context: &Context, flags: Remove) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = vaults.info(&flags.name)?;
    if !flags.yes && !context.shown.json && !confirmed(&vault.name)? {
        context.shown.note("Nothing was removed.");
        return Ok(1);
    }
    let mounts = Mounting::open(vaults, &context.places)?.list()?;
    let mounted = mounts.iter().find(|one| one.vault == vault.id && one.info.state == MountState::Live);
    if let (Some(mounted), false) = (mounted, flags.force) {
        let point = mounted.info.point.display();
        return Err(Failure::new(
            Code::VaultBusy,
            format!("the vault {:?} is mounted at {point}", vault.name),
        )
        .with_remedy(format!(
            "unmount it with avfs unmount {point}, or add --force, which gives up what was changed there"
        )));
    }
    let removed = vaults.remove(&vault.id.to_string(), RemoveOptions { force: flags.force })?;
    let removed = Removed {
        deleted: removed.name,
        id: removed.id.to_string(),
        checkpoints: removed.checkpoints,
        kept_for_forks: removed.is_kept_for_forks,
    };
    context.shown.result(&removed, |out| writeln!(out, "Removed vault {}", removed.deleted))?;
    Ok(0)
}

/// Asks the person at the terminal.
fn confirmed(name: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(Code::InvalidArgument, format!("removing the vault {name:?} needs --yes"))
            .with_remedy("add --yes; a removed vault cannot be brought back"));
    }
    let failed = |error: io::Error| Failure::new(Code::of_io(&error), format!("could not ask: {error}"));
    let mut err = Stream::stderr();
    write!(err, "Remove vault {name} with its history? [y/N] ").and_then(|()| err.flush()).map_err(failed)?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(failed)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
