//! `avfs enter`.

use std::ffi::OsString;
use std::io::Write;

use agentiso_core::Failure;
use agentiso_proxy::enter as enter_vault;
use agentiso_proxy::envelope::ChangeReport;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::ui::counted;

/// Flags of `enter`.
#[derive(Args, Debug)]
#[command(
    after_help = "The command runs with your rights and without a sandbox or policy; only its view of the files \
                  differs. Its changes are in the vault when it and everything it started has ended.\n\nExamples:\n  \
                  avfs --vault work enter\n  avfs --vault work enter -- make"
)]
pub struct Enter {
    /// Nothing can be changed
    #[arg(short, long)]
    pub readonly: bool,
    /// A program and its arguments [default: your shell]
    #[arg(last = true, value_name = "ARGV")]
    pub argv: Vec<OsString>,
}

/// What was changed.
#[derive(Debug, JsonSchema, Serialize)]
pub struct EnteredVault {
    vault: String,
    exit_code: u8,
    /// What was changed; the first ones if there are many.
    changes: Vec<ChangeReport>,
    /// How many changes there are.
    changes_total: u64,
    /// The fork with what was changed, if the vault could not take it.
    saved_as: Option<String>,
}

/// Runs a command in a vault.
pub fn enter(context: &Context, flags: Enter) -> Result<u8, Failure> {
    let argv = match flags.argv.is_empty() {
        true => vec![std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())],
        false => flags.argv,
    };
    let vault = context.vault()?;
    let (code, back) = enter_vault(context.vaults()?, &context.places, &vault, &argv, flags.readonly)?;
    let entered = EnteredVault {
        vault,
        exit_code: code,
        changes: back.changes,
        changes_total: back.total,
        saved_as: back.saved_as,
    };
    if context.shown.json {
        context.shown.result(&entered, |out| writeln!(out))?;
    } else if entered.changes_total > 0 {
        let into = entered.saved_as.as_ref().unwrap_or(&entered.vault);
        context.shown.note(&format!("({} in {into})", counted(entered.changes_total, "change")));
    }
    Ok(code)
}
