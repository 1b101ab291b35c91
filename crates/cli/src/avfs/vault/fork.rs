//! `avfs vault fork`.

use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_vfs::{ForkNames, ForkVault, StateRef, VaultInfo};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::{BACKEND, end_of, is_current};
use crate::avfs::context::Context;
use crate::avfs::directory;

/// How long an ephemeral fork lives unless a time is given.
const EPHEMERAL: &str = "24h";

/// Flags of `vault fork`.
#[derive(Args, Debug)]
#[command(
    after_help = "A fork is a row in a database: it costs the same whatever the size of the vault.\n\nExamples:\n  \
                  avfs vault fork work task-1\n  avfs vault fork work --count 8 --ttl 2h\n  \
                  avfs vault fork work before --at checkpoint-1"
)]
pub struct Fork {
    /// The vault to fork
    pub source: String,
    /// The name of the fork [default: SOURCE-fork-N]
    #[arg(required_unless_present = "count", conflicts_with = "count")]
    pub name: Option<String>,
    /// Make this many forks, with names of their own
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// The state to begin with: a checkpoint, or a revision such as r17
    #[arg(long, value_name = "STATE")]
    pub at: Option<StateRef>,
    /// What the fork is for
    #[arg(long, short)]
    pub description: Option<String>,
    /// Remove the fork by itself after this time, for example 2h
    #[arg(long, value_name = "TIME")]
    pub ttl: Option<String>,
    /// The same with 24 hours
    #[arg(long, conflicts_with = "ttl")]
    pub ephemeral: bool,
    /// Make it the default of the present directory
    #[arg(long, conflicts_with = "count")]
    pub r#use: bool,
}

/// A new fork. With `--count` the first of them, and all in `forks`.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Forked {
    /// The vault that was forked.
    source: String,
    /// The name of the fork.
    name: String,
    /// Its permanent id.
    id: String,
    /// Whether it is what commands in this directory use.
    current: bool,
    /// What it is kept in.
    backend: String,
    /// The directory of all vaults.
    path: String,
    /// Always true: a fork shares everything until it changes it.
    copy_on_write: bool,
    /// The tree it begins with.
    tree: String,
    /// When it is removed by itself.
    expires_at: Option<String>,
    /// The names of all forks that were made.
    forks: Vec<String>,
}

/// Forks a vault.
pub fn fork(context: &Context, flags: Fork) -> Result<u8, Failure> {
    let names = match (&flags.name, flags.count) {
        (Some(name), _) => ForkNames::Given(vec![name.parse()?]),
        (None, Some(count)) if (1..=10_000).contains(&count) => ForkNames::Automatic(count),
        _ => {
            return Err(Failure::new(
                Code::InvalidArgument,
                "between 1 and 10,000 forks can be made at once",
            ));
        }
    };
    let ttl = flags.ttl.as_deref().or(flags.ephemeral.then_some(EPHEMERAL));
    let vaults = context.vaults()?;
    let forks = vaults.fork(&ForkVault {
        source: flags.source.clone(),
        state: flags.at.unwrap_or_default(),
        names,
        description: flags.description,
        expires_at: end_of(ttl)?,
    })?;
    let Some(first) = forks.first() else {
        return Err(Failure::new(Code::Internal, "the fork was made and is not known"));
    };
    if flags.r#use {
        directory::set_default(&context.places, first)?;
    }
    let forked = Forked {
        source: source_name(first, flags.source),
        name: first.name.clone(),
        id: first.id.to_string(),
        current: is_current(context, first)?,
        backend: BACKEND.to_owned(),
        path: vaults.directory().display().to_string(),
        copy_on_write: true,
        tree: first.tree.to_string(),
        expires_at: first.expires_at.map(|end| end.to_string()),
        forks: forks.iter().map(|fork| fork.name.clone()).collect(),
    };
    context.shown.result(&forked, |out| match forked.forks.len() {
        1 => writeln!(out, "Forked {} as {}", forked.source, forked.name),
        _ => forked.forks.iter().try_for_each(|name| writeln!(out, "{name}")),
    })?;
    Ok(0)
}

/// The name of the vault that was forked: it may have been given by id.
fn source_name(fork: &VaultInfo, given: String) -> String {
    fork.parent.as_ref().and_then(|parent| parent.name.clone()).unwrap_or(given)
}
