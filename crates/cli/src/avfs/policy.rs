//! `avfs policy`.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use agentiso_core::{Code, Failure};
use agentiso_policy::command::PolicyExplanation;
use agentiso_proxy::{Invocation, explain, read_policy};
use clap::{Args, Subcommand};
use schemars::JsonSchema;
use serde::Serialize;

use super::answer::Answer;
use super::context::Context;
use crate::commands::show_explanation;

/// Where commands see their vault.
pub const WORKSPACE: &str = "/workspace";

/// Commands of `policy`.
#[derive(Debug, Subcommand)]
pub enum PolicyVerb {
    /// Show what a command may do, step by step, and what the policy decides about it
    Explain(Explain),
    /// Check a policy file, and show every mistake with its line
    Check(Check),
    /// Give a vault a policy; its forks have it too, unless they have their own
    Set(Set),
    /// Remove the policy of a vault
    Clear(Clear),
}

/// Flags of `policy explain`.
#[derive(Args, Debug)]
#[command(
    after_help = "Nothing is run. The vault is at /workspace, as for proxy exec; ~ is your home directory. With a vault \
                  its policy comes first, then policy.toml beside the configuration file, then \
                  /etc/agentiso/policy.toml.\n\nExamples:\n  avfs policy explain -- git push --force\n  \
                  avfs --vault work policy explain --json --shell 'curl -s https://example.com | sh'"
)]
pub struct Explain {
    /// A line for a shell, instead of a program with its arguments
    #[arg(long, value_name = "LINE", conflicts_with = "argv", required_unless_present = "argv")]
    pub shell: Option<String>,
    /// Applies the rules of this file instead of those of the vault
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// The directory at which the command sees the vault
    #[arg(long, value_name = "DIR", default_value = WORKSPACE)]
    pub mountpoint: PathBuf,
    /// A program and its arguments
    #[arg(last = true, value_name = "ARGV")]
    pub argv: Vec<String>,
}

/// Flags of `policy check`.
#[derive(Args, Debug)]
#[command(
    after_help = "The exit code is 1 if the file has mistakes.\n\nExample:\n  avfs policy check policy.toml"
)]
pub struct Check {
    /// The policy file
    pub file: PathBuf,
}

/// Flags of `policy set`.
#[derive(Args, Debug)]
#[command(
    after_help = "The file is copied. docs/policy.md describes it.\n\nExample:\n  avfs --vault work policy set policy.toml"
)]
pub struct Set {
    /// The policy file
    pub file: PathBuf,
}

/// Flags of `policy clear`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  avfs --vault work policy clear")]
pub struct Clear {}

/// A valid policy file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Checked {
    file: String,
    /// Always true: a file with mistakes is an error.
    valid: bool,
    rules: usize,
    defaults: usize,
}

/// The policy of a vault.
#[derive(Debug, JsonSchema, Serialize)]
pub struct VaultPolicy {
    vault: String,
    /// The file; null if it has none.
    policy: Option<String>,
}

impl Answer for PolicyExplanation {
    const NAME: &'static str = "policy_explanation";
}

/// Performs a command of `policy`.
pub fn policy(context: &Context, verb: PolicyVerb) -> Result<u8, Failure> {
    match verb {
        PolicyVerb::Explain(flags) => explain_command(context, flags),
        PolicyVerb::Check(flags) => {
            let policy = read_policy(&flags.file)?;
            let checked = Checked {
                file: flags.file.display().to_string(),
                valid: true,
                rules: policy.rules.len(),
                defaults: policy.defaults.len(),
            };
            context.shown.result(&checked, |out| {
                writeln!(
                    out,
                    "{} is valid: {} rules, {} defaults.",
                    checked.file, checked.rules, checked.defaults
                )
            })?;
            Ok(0)
        }
        PolicyVerb::Set(flags) => set(context, Some(flags.file)),
        PolicyVerb::Clear(Clear {}) => set(context, None),
    }
}

fn explain_command(context: &Context, flags: Explain) -> Result<u8, Failure> {
    let command = match flags.shell {
        Some(line) => Invocation::Shell(line),
        None => Invocation::Argv(flags.argv),
    };
    let vault = match context.named()? {
        Some(name) => {
            let vaults = context.vaults()?;
            Some((vaults, vaults.info(&name)?.id))
        }
        None => None,
    };
    let (policy, at) = (flags.policy.as_deref(), &flags.mountpoint);
    let explanation = explain(&context.places, &context.policies, vault, policy, at, &command)?;
    context.shown.result(&explanation, |out| show_explanation(&explanation, out))?;
    Ok(0)
}

/// Sets or removes the policy of the vault.
fn set(context: &Context, file: Option<PathBuf>) -> Result<u8, Failure> {
    let vault = context.vaults()?.info(&context.vault()?)?;
    let target = context.places.policy(vault.id);
    let failed = |error: io::Error| {
        Failure::new(Code::of_io(&error), format!("could not write the policy {}: {error}", target.display()))
    };
    match file {
        Some(file) => {
            // A policy with mistakes would stop every command.
            read_policy(&file)?;
            let partial = target.with_extension("new");
            fs::create_dir_all(context.places.policies()).map_err(failed)?;
            fs::copy(&file, &partial).and_then(|_| fs::rename(&partial, &target)).map_err(failed)?;
        }
        None => match fs::remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        },
    }
    let policy = target.exists().then(|| target.display().to_string());
    let answer = VaultPolicy { vault: vault.name, policy };
    context.shown.result(&answer, |out| match &answer.policy {
        Some(_) => writeln!(out, "Vault {} has a policy", answer.vault),
        None => writeln!(out, "Vault {} has no policy of its own", answer.vault),
    })?;
    Ok(0)
}
