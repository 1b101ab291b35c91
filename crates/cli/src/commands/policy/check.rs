//! `agentiso policy check`.

use std::io::Write;
use std::path::PathBuf;

use agentiso_core::Failure;
use agentiso_proxy::read_policy;
use clap::Args;
use serde_json::json;

use crate::output::Output;

/// Flags of `policy check`.
#[derive(Args, Debug)]
#[command(
    after_help = "The exit code is 1 if the file has mistakes.\n\nExample:\n  agentiso policy check policy.toml"
)]
pub struct Check {
    /// The policy file
    pub file: PathBuf,
}

/// Reads a policy file and says whether it is valid.
pub fn check(flags: &Check, output: Output) -> Result<u8, Failure> {
    let policy = read_policy(&flags.file)?;
    let (rules, defaults) = (policy.rules.len(), policy.defaults.len());
    let file = flags.file.display().to_string();
    let result = json!({ "file": file, "valid": true, "rules": rules, "defaults": defaults });
    output.result(&result, |out| writeln!(out, "{file} is valid: {rules} rules, {defaults} defaults."))?;
    Ok(0)
}
