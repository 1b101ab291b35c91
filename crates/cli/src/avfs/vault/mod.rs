//! `avfs vault`.

mod config;
mod create;
mod fork;
mod info;
mod list;
mod quota;
mod remove;
mod rename;
mod use_vault;

use agentiso_core::{Code, Failure};
use agentiso_vfs::VaultInfo;
use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};

use super::context::Context;

pub use config::Configured;
pub use create::Created;
pub use fork::Forked;
pub use info::Info;
pub use list::Listed;
pub use quota::{Quota, QuotaChanged, QuotaShown, quota};
pub use remove::Removed;
pub use rename::Renamed;
pub use use_vault::Used;

/// What vaults are kept in.
const BACKEND: &str = "agentiso";

/// Commands of `vault`.
#[derive(Debug, Subcommand)]
pub enum VaultVerb {
    /// Create an empty vault
    Create(create::Create),
    /// List vaults
    #[command(alias = "ls")]
    List(list::List),
    /// Make a vault the default of the present directory
    Use(use_vault::UseVault),
    /// Show details of a vault
    #[command(alias = "stats")]
    Info(info::InfoFlags),
    /// Fork a vault: the fork has all files and shares them until it changes them
    Fork(fork::Fork),
    /// Remove a vault with its history; its forks are kept
    #[command(name = "rm", alias = "delete")]
    Remove(remove::Remove),
    /// Rename a vault
    Rename(rename::Rename),
    /// Limit the size of a vault
    Quota(quota::Quota),
    /// Show and change how much history a vault keeps
    Config(config::Config),
}

/// Performs a command of `vault`.
pub fn vault(context: &Context, verb: VaultVerb) -> Result<u8, Failure> {
    match verb {
        VaultVerb::Create(flags) => create::create(context, flags),
        VaultVerb::List(flags) => list::list(context, flags),
        VaultVerb::Use(flags) => use_vault::use_vault(context, flags),
        VaultVerb::Info(flags) => info::info(context, flags),
        VaultVerb::Fork(flags) => fork::fork(context, flags),
        VaultVerb::Remove(flags) => remove::remove(context, flags),
        VaultVerb::Rename(flags) => rename::rename(context, flags),
        VaultVerb::Quota(flags) => quota::quota(context, flags),
        VaultVerb::Config(flags) => config::config(context, flags),
    }
}

/// Whether a vault is what commands in this directory use.
fn is_current(context: &Context, vault: &VaultInfo) -> Result<bool, Failure> {
    Ok(context.named()?.is_some_and(|named| named == vault.name || named == vault.id.to_string()))
}

/// The time at which something with a time to live ends.
fn end_of(ttl: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    let Some(ttl) = ttl else { return Ok(None) };
    let wrong = || {
        Failure::new(Code::InvalidArgument, format!("{ttl:?} is not a time to live"))
            .with_remedy("give a number with s, m, h or d, for example 2h")
    };
    let digits = ttl.find(|c: char| !c.is_ascii_digit()).unwrap_or(ttl.len());
    let (number, unit) = ttl.split_at(digits);
    let seconds = match unit {
        "s" | "" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    let time = number.checked_mul(seconds).filter(|time| *time > 0).ok_or_else(wrong)?;
    let end = Timestamp::now().checked_add(SignedDuration::from_secs(time)).map_err(|_| wrong())?;
    Ok(Some(end))
}
