//! `agentiso rename`.

use std::io::Write;

use agentiso_config::paths::Paths;
use agentiso_core::Failure;
use agentiso_core::action::WorkspaceRename;

use clap::Args;

use super::Daemon;
use crate::args::workspaces;
use crate::output::Output;

/// Flags of `rename`.
#[derive(Args, Debug)]
#[command(after_help = "The machine's host name changes at once. The id stays the same.\n\nExample:\n  \
                        agentiso rename web-1 candidate")]
pub struct Rename {
    /// The workspace
    #[arg(value_name = "WS", add = workspaces())]
    pub workspace: String,
    /// Its new name, which must be free
    pub name: String,
}

/// Gives a workspace another name.
pub async fn rename(here: &Paths, flags: Rename, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceRename { workspace_id: flags.workspace, new_name: flags.name };
    let now = Daemon::reach(here, output).await?.change("Still renaming", &request).await?;
    output.result(&now, |out| writeln!(out, "Renamed {} to {}.", request.workspace_id, now.name))?;
    Ok(0)
}
