//! `avfs vault config`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_vfs::Retention;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;

/// Flags of `vault config`.
#[derive(Args, Debug)]
#[command(
    after_help = "Keys: keep_revisions, keep_auto_checkpoints, keep_undo_points, max_age_days. The value none removes \
                  a limit. Checkpoints that were saved by name are always kept.\n\nExamples:\n  \
                  avfs --vault work vault config\n  avfs --vault work vault config keep_revisions 1000"
)]
pub struct Config {
    /// The setting to change
    #[arg(requires = "value")]
    pub key: Option<String>,
    /// Its value
    pub value: Option<String>,
}

/// How much history a vault keeps; null is no limit.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Configured {
    keep_revisions: Option<u64>,
    keep_auto_checkpoints: Option<u64>,
    keep_undo_points: Option<u64>,
    max_age_days: Option<u64>,
}

/// Shows or changes settings.
pub fn config(context: &Context, flags: Config) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let mut retention = vaults.retention(&vault)?;
    if let (Some(key), Some(value)) = (&flags.key, &flags.value) {
        *setting(&mut retention, key)? = number(key, value)?;
        vaults.set_retention(&vault, retention)?;
    }
    let configured = Configured {
        keep_revisions: retention.revisions,
        keep_auto_checkpoints: retention.auto_checkpoints,
        keep_undo_points: retention.undo_points,
        max_age_days: retention.max_age_days,
    };
    context.shown.result(&configured, |out| {
        for (key, value) in [
            ("keep_revisions", configured.keep_revisions),
            ("keep_auto_checkpoints", configured.keep_auto_checkpoints),
            ("keep_undo_points", configured.keep_undo_points),
            ("max_age_days", configured.max_age_days),
        ] {
            writeln!(out, "{key:<22} {}", value.map_or("none".to_owned(), |value| value.to_string()))?;
        }
        Ok(())
    })?;
    Ok(0)
}

fn setting<'r>(retention: &'r mut Retention, key: &str) -> Result<&'r mut Option<u64>, Failure> {
    Ok(match key {
        "keep_revisions" => &mut retention.revisions,
        "keep_auto_checkpoints" => &mut retention.auto_checkpoints,
        "keep_undo_points" => &mut retention.undo_points,
        "max_age_days" => &mut retention.max_age_days,
        other => {
            return Err(Failure::new(Code::InvalidArgument, format!("{other:?} is not a setting"))
                .with_remedy(
                    "settings: keep_revisions, keep_auto_checkpoints, keep_undo_points, max_age_days",
                ));
        }
    })
}

fn number(key: &str, value: &str) -> Result<Option<u64>, Failure> {
    if value == "none" {
        return Ok(None);
    }
    value.parse().map(Some).map_err(|_| {
        Failure::new(Code::InvalidArgument, format!("{value:?} is not a value for {key}"))
            .with_remedy("give a number, or none")
    })
}
