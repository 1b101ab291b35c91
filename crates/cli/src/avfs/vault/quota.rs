//! `avfs quota` and `avfs vault quota`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_vfs::{QuotaStatus, Quotas};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::Context;
use crate::avfs::shown::human;

/// A limit in megabytes counts 1024 kilobytes each.
const MB: u64 = 1 << 20;

/// Flags of `quota`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Keys: max_size_mb, max_files, max_file_size_mb. History does not count.\n\nExamples:\n  \
                  avfs --vault work quota\n  avfs --vault work quota set max_size_mb 500\n  \
                  avfs --vault work quota clear max_size_mb"
)]
pub struct Quota {
    /// Show limits, or change one.
    #[command(subcommand)]
    pub verb: Option<QuotaVerb>,
}

/// Commands of `quota`.
#[derive(Debug, Subcommand)]
pub enum QuotaVerb {
    /// Set a limit
    Set {
        /// max_size_mb, max_files or max_file_size_mb
        key: String,
        /// The limit
        value: u64,
    },
    /// Remove a limit
    Clear {
        /// max_size_mb, max_files or max_file_size_mb
        key: String,
    },
    /// Show limits and what is used of them
    Status,
}

/// Limits and what is used of them.
#[derive(Debug, JsonSchema, Serialize)]
pub struct QuotaShown {
    current_size_bytes: u64,
    current_size_human: String,
    current_files: u64,
    max_size_mb: Option<u64>,
    max_files: Option<u64>,
    max_file_size_mb: Option<u64>,
    size_usage_percent: Option<f64>,
    files_usage_percent: Option<f64>,
}

/// A changed limit.
#[derive(Debug, JsonSchema, Serialize)]
pub struct QuotaChanged {
    /// `set` or `clear`.
    action: String,
    key: String,
    value: Option<u64>,
}

/// Shows or changes limits.
pub fn quota(context: &Context, flags: Quota) -> Result<u8, Failure> {
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    let (key, value) = match flags.verb.unwrap_or(QuotaVerb::Status) {
        QuotaVerb::Status => {
            let status = QuotaShown::from(&vaults.quotas(&vault)?);
            context.shown.result(&status, |out| {
                let limit = |limit: Option<u64>, unit: &str| match limit {
                    Some(limit) => format!("{limit}{unit}"),
                    None => "none".to_owned(),
                };
                writeln!(
                    out,
                    "size   {} of {}",
                    status.current_size_human,
                    limit(status.max_size_mb, " MiB")
                )?;
                writeln!(out, "files  {} of {}", status.current_files, limit(status.max_files, ""))?;
                writeln!(out, "file   at most {}", limit(status.max_file_size_mb, " MiB"))
            })?;
            return Ok(0);
        }
        QuotaVerb::Set { key, value } => (key, Some(value)),
        QuotaVerb::Clear { key } => (key, None),
    };
    let mut quotas = vaults.quotas(&vault)?.quotas;
    set(&mut quotas, &key, value)?;
    vaults.set_quotas(&vault, quotas)?;
    let action = if value.is_some() { "set" } else { "clear" };
    let changed = QuotaChanged { action: action.to_owned(), key, value };
    context.shown.result(&changed, |out| match changed.value {
        Some(value) => writeln!(out, "{} is {value}", changed.key),
        None => writeln!(out, "{} has no limit", changed.key),
    })?;
    Ok(0)
}

fn set(quotas: &mut Quotas, key: &str, value: Option<u64>) -> Result<(), Failure> {
    let too_large = || Failure::new(Code::InvalidArgument, format!("the limit {key} is too large"));
    let bytes = || value.map(|value| value.checked_mul(MB).ok_or_else(too_large)).transpose();
    match key {
        "max_size_mb" => quotas.max_bytes = bytes()?,
        "max_file_size_mb" => quotas.max_file_bytes = bytes()?,
        "max_files" => quotas.max_files = value,
        other => {
            return Err(Failure::new(Code::InvalidArgument, format!("{other:?} is not a limit"))
                .with_remedy("limits: max_size_mb, max_files, max_file_size_mb"));
        }
    }
    Ok(())
}

impl From<&QuotaStatus> for QuotaShown {
    fn from(status: &QuotaStatus) -> Self {
        let mb = |bytes: Option<u64>| bytes.map(|bytes| bytes / MB);
        Self {
            current_size_bytes: status.totals.bytes,
            current_size_human: human(status.totals.bytes),
            current_files: status.totals.files,
            max_size_mb: mb(status.quotas.max_bytes),
            max_files: status.quotas.max_files,
            max_file_size_mb: mb(status.quotas.max_file_bytes),
            size_usage_percent: status.bytes_percent(),
            files_usage_percent: status.files_percent(),
        }
    }
}
