//! `avfs log`.

use std::ffi::OsString;

use agentiso_core::Failure;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown::human;
use crate::ui::{Table, age_since};

/// Flags of `log`.
#[derive(Args, Debug)]
#[command(after_help = "Without a path the changes of the whole vault are shown.\n\nExamples:\n  \
                  avfs --vault work log /README.md\n  avfs --vault work log -n 20")]
pub struct Log {
    /// The file
    pub path: Option<OsString>,
    /// Most versions
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub limit: usize,
}

/// The versions of a file, or the changes of a vault, newest first.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct History(Vec<Past>);

/// A version of a file, or a change of a vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Past {
    /// The number of the version; null if the file was deleted here, and for changes of a vault.
    version: Option<u64>,
    /// The number of the change of the vault.
    revision: u64,
    /// The size of the file in bytes; of a change, that of all files.
    size: Option<u64>,
    created_at: Option<String>,
    /// Identifies the content.
    hash: Option<String>,
    /// What was done.
    operation: Option<String>,
    /// Who did it.
    actor: Option<String>,
    /// Whether it is what the vault has now.
    current: bool,
    /// What was changed, if a change was about one path.
    path: Option<String>,
}

/// Shows history.
pub fn log(context: &Context, flags: Log) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let history: Vec<Past> = match &flags.path {
        Some(given) => {
            let at = path(given)?;
            let versions = vaults.log(&vault, &at, flags.limit)?.into_iter();
            versions
                .map(|one| Past {
                    version: one.version,
                    revision: one.revision,
                    size: one.stat.as_ref().map(|stat| stat.size),
                    created_at: one.at.map(|at| at.to_string()),
                    hash: one.stat.and_then(|stat| stat.hash),
                    operation: one.operation,
                    actor: one.actor,
                    current: one.is_current,
                    path: None,
                })
                .collect()
        }
        None => {
            let now = vaults.info(&vault)?.revision;
            let revisions = vaults.revisions(&vault, flags.limit, None)?.into_iter();
            revisions
                .map(|one| Past {
                    version: None,
                    revision: one.revision,
                    size: Some(one.totals.bytes),
                    created_at: Some(one.at.to_string()),
                    hash: Some(one.after.to_string()),
                    operation: Some(one.operation),
                    actor: Some(one.actor),
                    current: one.revision == now,
                    path: one.path.as_ref().map(crate::avfs::shown::path),
                })
                .collect()
        }
    };
    let history = History(history);
    context.shown.result(&history, |out| {
        let mut table = Table::new(["VERSION", "REVISION", "SIZE", "WHEN", "WHAT", "WHO"]).align_right(2);
        for one in &history.0 {
            let what = [one.operation.as_deref(), one.path.as_deref()];
            table.row([
                one.version.map(|version| version.to_string()).unwrap_or_default(),
                format!("r{}", one.revision),
                one.size.map(human).unwrap_or_default(),
                one.created_at.as_deref().map(age_since).unwrap_or_default(),
                what.into_iter().flatten().collect::<Vec<_>>().join(" "),
                one.actor.clone().unwrap_or_default(),
            ]);
        }
        table.write(out)
    })?;
    Ok(0)
}
